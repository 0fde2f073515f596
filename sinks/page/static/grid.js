// The ranks of a job: one cell per rank, a block of up to eight cells per node, under the node's name. The canvas is as
// large as the visible part and draws only that; colour and shape show the state.

const GAP = 6;
const BELOW = 10;
const MIN_LABEL_WIDTH = 40;
const grids = new WeakMap();

export function drawGrids() {
  for (const element of document.querySelectorAll("[data-grid]")) {
    if (!grids.has(element)) grids.set(element, new Grid(element));
    grids.get(element).load();
  }
}

export function redrawGrids() {
  for (const element of document.querySelectorAll("[data-grid]")) grids.get(element)?.redraw();
}

class Grid {
  constructor(element) {
    this.address = element.dataset.grid;
    this.box = element.querySelector(".grid-scroll");
    this.whole = element.querySelector(".grid-whole");
    this.canvas = element.querySelector("canvas");
    this.description = element.querySelector(".grid-cell");
    this.button = element.querySelector("[data-next-bad]");
    this.at = -1;
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerdown", (event) => this.point(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => this.at < 0 && this.choose(0));
    this.box.addEventListener("scroll", () => requestAnimationFrame(() => this.draw()));
    this.button.addEventListener("click", () => this.chooseNextBad());
    new ResizeObserver(() => this.layOut()).observe(this.box);
  }

  async load() {
    this.isOutdated = true;
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      while (this.isOutdated) {
        this.isOutdated = false;
        const answer = await fetch(this.address);
        if (answer.ok) this.show(await answer.json());
      }
    } catch {
      // No connection: the header shows it, and the next event retries.
    } finally {
      this.isLoading = false;
    }
  }

  show(ranks) {
    this.ranks = ranks;
    this.bad = ranks.state.map((_, i) => i).filter((i) => ranks.bad.includes(ranks.state[i]));
    this.bad.sort((a, b) => ranks.state[a] - ranks.state[b] || a - b);
    this.button.hidden = !this.bad.length;
    this.at = Math.min(this.at, ranks.rank.length - 1);
    this.redraw();
  }

  redraw() {
    this.layOut();
    if (this.at >= 0) this.description.textContent = this.describe(this.at);
  }

  layOut() {
    if (!this.ranks?.rank.length) return;
    const { node } = this.ranks;
    const count = node.length;
    const size = (this.size = count <= 512 ? 20 : count <= 4096 ? 13 : 9);
    const gap = Math.max(GAP, size / 3);
    const perBlock = Math.min(8, Math.max(1, longestRun(node)));
    this.blockWidth = perBlock * size;
    this.labelHeight = this.blockWidth >= MIN_LABEL_WIDTH ? 13 : 0;
    this.rowHeight = Math.round(size + this.labelHeight + gap);
    const width = this.whole.clientWidth - 2;
    const blocksWide = Math.max(1, Math.floor((width + gap) / (this.blockWidth + gap)));
    const isOneRow = count <= blocksWide * perBlock;
    const apart = isOneRow || blocksWide === 1 ? this.blockWidth + gap : (width - this.blockWidth) / (blocksWide - 1);
    this.x = new Float32Array(count);
    this.row = new Uint32Array(count);
    this.rowStarts = [];
    for (let i = 0, block = -1, within = 0; i < count; i++, within++) {
      if (i === 0 || node[i] !== node[i - 1] || within === perBlock) [block, within] = [block + 1, 0];
      this.row[i] = Math.floor(block / blocksWide);
      this.x[i] = 1 + Math.round((block % blocksWide) * apart) + within * size;
      if (this.rowStarts.length === this.row[i]) this.rowStarts.push(i);
    }
    const rows = this.rowStarts.length;
    const visibleRows = Math.max(2, Math.floor((innerHeight * 0.7) / this.rowHeight));
    this.width = this.whole.clientWidth;
    this.height = Math.min(rows, visibleRows) * this.rowHeight + GAP + BELOW;
    this.whole.style.height = `${rows * this.rowHeight + GAP + BELOW}px`;
    this.box.style.height = `${this.height + 2}px`;
    this.fitCanvas();
    this.draw();
    this.canvas.dataset.drawn = count;
  }

  fitCanvas() {
    const scale = devicePixelRatio || 1;
    this.canvas.width = Math.ceil(this.width * scale);
    this.canvas.height = Math.ceil(this.height * scale);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
  }

  draw() {
    if (!this.rowStarts) return;
    const scale = devicePixelRatio || 1;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    pen.translate(0, -this.box.scrollTop);
    pen.font = `${this.size > 10 ? 11 : 10}px ${getComputedStyle(this.canvas).fontFamily}`;
    pen.textBaseline = "middle";
    const colours = coloursOf(this.canvas);
    const inner = this.size - (this.size > 10 ? 3 : 2);
    const first = Math.max(0, Math.floor((this.box.scrollTop - GAP) / this.rowHeight));
    const last = Math.floor((this.box.scrollTop + this.height - GAP) / this.rowHeight);
    for (let i = this.rowStarts[first]; i < (this.rowStarts[last + 1] ?? this.row.length); i++) {
      this.drawLabel(pen, i, colours.quiet);
      drawCell(pen, this.ranks.states[this.ranks.state[i]], colours, this.x[i], this.y(i), inner);
    }
    if (this.at >= 0) {
      pen.strokeStyle = colours.ink;
      pen.lineWidth = 2;
      pen.strokeRect(this.x[this.at] - 1, this.y(this.at) - 1, inner + 2, inner + 2);
    }
  }

  drawLabel(pen, i, colour) {
    const startsBlock = i === 0 || this.row[i] !== this.row[i - 1] || this.x[i] - this.x[i - 1] > this.size;
    if (!startsBlock || !this.labelHeight) return;
    const name = this.ranks.nodes[this.ranks.node[i]];
    pen.fillStyle = colour;
    pen.fillText(fitted(pen, name, this.blockWidth), this.x[i], this.y(i) - this.labelHeight / 2);
  }

  // The top of a cell within the whole grid.
  y(i) {
    return GAP + this.row[i] * this.rowHeight + this.labelHeight;
  }

  cellAt(x, y) {
    const row = Math.floor((y - GAP) / this.rowHeight);
    for (let i = this.rowStarts[row]; i < (this.rowStarts[row + 1] ?? this.row.length); i++) {
      if (x >= this.x[i] && x < this.x[i] + this.size && y >= this.y(i)) return i;
    }
    return -1;
  }

  point(event) {
    if (!this.rowStarts) return;
    const { left, top } = this.canvas.getBoundingClientRect();
    const at = this.cellAt(event.clientX - left, event.clientY - top + this.box.scrollTop);
    if (at >= 0) this.choose(at);
  }

  key(event) {
    const last = this.row.length - 1;
    const action = {
      b: () => this.chooseNextBad(),
      ArrowRight: () => this.choose(Math.min(this.at + 1, last)),
      ArrowLeft: () => this.choose(Math.max(this.at - 1, 0)),
      ArrowDown: () => this.choose(this.inRow(this.row[this.at] + 1)),
      ArrowUp: () => this.choose(this.inRow(this.row[this.at] - 1)),
      Home: () => this.choose(0),
      End: () => this.choose(last),
    }[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }

  // The cell of a row that is nearest to the chosen one; the chosen one if there is no such row.
  inRow(row) {
    let nearest = this.at;
    let distance = Infinity;
    for (let i = this.rowStarts[row]; i < (this.rowStarts[row + 1] ?? this.row.length); i++) {
      const away = Math.abs(this.x[i] - this.x[this.at]);
      if (away < distance) [nearest, distance] = [i, away];
    }
    return nearest;
  }

  chooseNextBad() {
    if (!this.bad?.length) return;
    const next = (this.bad.indexOf(this.at) + 1) % this.bad.length;
    this.choose(this.bad[next]);
    this.canvas.focus();
  }

  choose(at) {
    if (at === this.at || !this.rowStarts) return;
    this.at = at;
    this.description.textContent = this.describe(at);
    const [top, bottom] = [this.y(at) - this.labelHeight - GAP, this.y(at) + this.size + BELOW];
    if (top < this.box.scrollTop || bottom > this.box.scrollTop + this.height) {
      const row = Math.max(0, this.row[at] - Math.floor(this.height / this.rowHeight / 2));
      this.box.scrollTop = row * this.rowHeight;
    }
    this.draw();
  }

  describe(at) {
    const { rank, node, nodes, gpu, state, states, labels, step, newest_step, heard_ms, heard_of_node, newest_ms } = this.ranks;
    const behind = states[state[at]] !== "in-step" && step[at] !== null ? newest_step - step[at] : 0;
    const silent = Math.round((newest_ms - heard_ms[at]) / 1000);
    const place = this.bad.indexOf(at);
    return [
      place >= 0 && `${(place + 1).toLocaleString("en")} of ${this.bad.length.toLocaleString("en")}`,
      `Rank ${rank[at]}: ${labels[state[at]].toLowerCase()}`,
      nodes[node[at]],
      gpu[at] && `GPU ${gpu[at]}`,
      step[at] !== null && `step ${step[at].toLocaleString("en")}${behind > 0 ? `, ${behind.toLocaleString("en")} behind` : ""}`,
      heard_ms[at] ? `${heard_of_node[at] ? "newest line of its node" : "last seen"} ${new Date(heard_ms[at]).toISOString().slice(11, 19)} UTC${silent > 0 ? `, ${silent} s before the latest line` : ""}` : "",
    ].filter(Boolean).join(" · ");
  }
}

function longestRun(node) {
  let longest = 0;
  for (let i = 0, run = 0; i < node.length && longest < 8; i++) {
    run = node[i] === node[i - 1] ? run + 1 : 1;
    longest = Math.max(longest, run);
  }
  return longest;
}

// The end of a long name says more than its beginning.
function fitted(pen, name, width) {
  if (pen.measureText(name).width <= width) return name;
  let from = 1;
  while (from < name.length && pen.measureText(`…${name.slice(from)}`).width > width) from++;
  return `…${name.slice(from)}`;
}

// Each state has its own shape, for readers who can't distinguish the colours.
const SHAPES = {
  stalled(pen, colours, x, y, size) {
    pen.strokeStyle = colours.critical;
    pen.lineWidth = Math.max(2, size / 5);
    line(pen, [x + 1, y + 1, x + size - 1, y + size - 1], [x + size - 1, y + 1, x + 1, y + size - 1]);
  },
  "logs-missing"(pen, colours, x, y, size) {
    frame(pen, colours.error, x, y, size);
    pen.lineWidth = Math.max(2, size / 5);
    line(pen, [x + 1, y + size / 2, x + size - 1, y + size / 2]);
  },
  behind(pen, colours, x, y, size) {
    frame(pen, colours.warning, x, y, size);
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(x, y + size);
    pen.lineTo(x + size, y + size);
    pen.fill();
  },
  "no-logs"(pen, colours, x, y, size) {
    pen.fillStyle = colours.quiet;
    pen.beginPath();
    pen.arc(x + size / 2, y + size / 2, Math.max(1.5, size / 7), 0, 2 * Math.PI);
    pen.fill();
  },
  "no-step"(pen, colours, x, y, size) {
    frame(pen, colours.quiet, x, y, size);
  },
  "logs-only"(pen, colours, x, y, size) {
    pen.strokeStyle = colours.quiet;
    pen.lineWidth = size > 10 ? 2 : 1;
    const [inset, upper, lower] = [size / 7, Math.round(y + size * 0.3), Math.round(y + size * 0.7)];
    line(pen, [x + inset, upper, x + size - inset, upper], [x + inset, lower, x + size * 0.6, lower]);
  },
  "in-step"(pen, colours, x, y, size) {
    fill(pen, colours.good, 0.4, x, y, size);
  },
  ended(pen, colours, x, y, size) {
    fill(pen, colours.quiet, 0.4, x, y, size);
  },
  unknown(pen, colours, x, y, size) {
    frame(pen, colours.quiet, x, y, size);
    line(pen, [x + 1, y + size - 1, x + size - 1, y + 1]);
  },
};

function drawCell(pen, state, colours, x, y, size) {
  SHAPES[state](pen, colours, x, y, size);
}

function frame(pen, colour, x, y, size) {
  pen.strokeStyle = pen.fillStyle = colour;
  pen.lineWidth = size > 10 ? 1.5 : 1;
  pen.strokeRect(x + 0.75, y + 0.75, size - 1.5, size - 1.5);
}

function fill(pen, colour, alpha, x, y, size) {
  pen.fillStyle = colour;
  pen.globalAlpha = alpha;
  pen.fillRect(x, y, size, size);
  pen.globalAlpha = 1;
}

function line(pen, ...lines) {
  pen.beginPath();
  for (const [x, y, toX, toY] of lines) {
    pen.moveTo(x, y);
    pen.lineTo(toX, toY);
  }
  pen.stroke();
}

const COLOURS = ["good", "warning", "critical", "error", "quiet", "ink"];
const known = new Map();

// The colours of the theme. A custom property keeps light-dark() unresolved; a real colour property resolves it.
function coloursOf(element) {
  const theme = `${document.documentElement.dataset.theme} ${matchMedia("(prefers-color-scheme: dark)").matches}`;
  if (!known.has(theme)) known.set(theme, Object.fromEntries(COLOURS.map((name) => [name, resolved(name, element)])));
  return known.get(theme);
}

function resolved(name, element) {
  const probe = document.createElement("i");
  element.after(probe);
  probe.style.color = `var(--${name})`;
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
