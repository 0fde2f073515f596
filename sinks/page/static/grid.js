// The ranks of a job on one canvas: one cell per rank, eight cells per block; colour and shape show the state.

const STATES = ["level", "behind", "silent", "unheard"];
const COLOURS = ["--good", "--warning", "--critical", "--quiet"];
const LABELS = ["up to date", "behind", "silent", "never seen"];
const grids = new WeakMap();

export function drawGrids() {
  for (const element of document.querySelectorAll("[data-grid]")) {
    if (!grids.has(element)) grids.set(element, new Grid(element));
    grids.get(element).load();
  }
}

class Grid {
  constructor(element) {
    this.address = element.dataset.grid;
    this.box = element.querySelector(".grid-scroll");
    this.canvas = element.querySelector("canvas");
    this.description = element.querySelector(".grid-cell");
    this.at = -1;
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerdown", (event) => this.point(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => this.at < 0 && this.choose(0));
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  async load() {
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      const answer = await fetch(this.address);
      if (answer.ok) this.ranks = await answer.json();
      this.draw();
    } catch {
      // No connection: the header shows it, and the next event retries.
    } finally {
      this.isLoading = false;
    }
  }

  // Each node's ranks form blocks, placed side by side while there is room.
  layOut() {
    const { node } = this.ranks;
    const count = node.length;
    this.size = count <= 512 ? 20 : count <= 4096 ? 13 : 9;
    const gap = Math.max(3, this.size / 3);
    const perNode = Math.min(8, Math.max(1, this.longestRun(node)));
    const blockWidth = perNode * this.size + gap;
    const blocksWide = Math.max(1, Math.floor((this.box.clientWidth - 26 + gap) / blockWidth));
    this.x = new Float32Array(count);
    this.y = new Float32Array(count);
    let block = -1;
    let within = 0;
    for (let i = 0; i < count; i++) {
      if (i === 0 || node[i] !== node[i - 1] || within === perNode) [block, within] = [block + 1, 0];
      this.x[i] = (block % blocksWide) * blockWidth + within * this.size;
      this.y[i] = Math.floor(block / blocksWide) * (this.size + gap / 1.5);
      within++;
    }
    this.width = Math.min(blocksWide, block + 1) * blockWidth - gap;
    this.height = this.y[count - 1] + this.size;
    this.perRow = blocksWide * perNode;
  }

  longestRun(node) {
    let longest = 0;
    for (let i = 0, run = 0; i < node.length && longest < 8; i++) {
      run = node[i] === node[i - 1] ? run + 1 : 1;
      longest = Math.max(longest, run);
    }
    return longest;
  }

  draw() {
    if (!this.ranks?.rank.length) return;
    this.layOut();
    const scale = devicePixelRatio || 1;
    this.canvas.width = Math.ceil((this.width + 2) * scale);
    this.canvas.height = Math.ceil((this.height + 2) * scale);
    this.canvas.style.width = `${this.width + 2}px`;
    this.canvas.style.height = `${this.height + 2}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.translate(1, 1);
    const style = getComputedStyle(this.canvas);
    const colours = COLOURS.map((name) => resolved(style.getPropertyValue(name), this.canvas));
    const inner = this.size - (this.size > 10 ? 3 : 2);
    for (let i = 0; i < this.x.length; i++) cell(pen, this.ranks.state[i], colours, this.x[i], this.y[i], inner);
    if (this.at >= 0) {
      pen.strokeStyle = resolved(style.getPropertyValue("--ink"), this.canvas);
      pen.lineWidth = 2;
      pen.strokeRect(this.x[this.at] - 1, this.y[this.at] - 1, inner + 2, inner + 2);
    }
    this.canvas.dataset.drawn = this.x.length;
  }

  point(event) {
    if (!this.x) return;
    const { left, top } = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    for (let i = 0; i < this.x.length; i++) {
      if (x >= this.x[i] && x < this.x[i] + this.size && y >= this.y[i] && y < this.y[i] + this.size) return this.choose(i);
    }
  }

  key(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.perRow, ArrowUp: -this.perRow, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || !this.x) return;
    event.preventDefault();
    const last = this.x.length - 1;
    const wanted = this.at + steps[event.key];
    if (Number.isFinite(wanted) && (wanted < 0 || wanted > last)) return;
    this.choose(Math.min(Math.max(wanted, 0), last));
  }

  choose(at) {
    if (at === this.at || !this.ranks?.rank.length) return;
    this.at = at;
    this.draw();
    this.description.textContent = this.describe(at);
    const { offsetHeight } = this.box;
    const y = this.y[at];
    if (y < this.box.scrollTop || y > this.box.scrollTop + offsetHeight - 50) this.box.scrollTop = y - offsetHeight / 2;
  }

  describe(at) {
    const { rank, node, nodes, gpu, state, step, newest_step, heard_ms, newest_ms } = this.ranks;
    const behind = newest_step !== null && step[at] !== null ? newest_step - step[at] : 0;
    const silent = Math.round((newest_ms - heard_ms[at]) / 1000);
    return [
      `Rank ${rank[at]}: ${LABELS[state[at]]}`,
      nodes[node[at]],
      gpu[at] && `GPU ${gpu[at]}`,
      step[at] !== null && `step ${step[at].toLocaleString("en")}${behind > 0 ? `, ${behind.toLocaleString("en")} behind` : ""}`,
      heard_ms[at] ? `last seen ${new Date(heard_ms[at]).toISOString().slice(11, 19)} UTC${silent > 0 ? `, ${silent} s before the latest line` : ""}` : "",
    ].filter(Boolean).join(" · ");
  }
}

// Each state has its own shape, for readers who can't distinguish the colours.
function cell(pen, state, colours, x, y, size) {
  pen.fillStyle = pen.strokeStyle = colours[state];
  pen.lineWidth = 1.5;
  pen.globalAlpha = state === 0 ? 0.4 : 1;
  if (STATES[state] === "level") {
    pen.fillRect(x, y, size, size);
  } else if (STATES[state] === "behind") {
    pen.strokeRect(x + 0.75, y + 0.75, size - 1.5, size - 1.5);
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(x, y + size);
    pen.lineTo(x + size, y + size);
    pen.fill();
  } else if (STATES[state] === "silent") {
    pen.lineWidth = Math.max(2, size / 5);
    pen.beginPath();
    pen.moveTo(x + 1, y + 1);
    pen.lineTo(x + size - 1, y + size - 1);
    pen.moveTo(x + size - 1, y + 1);
    pen.lineTo(x + 1, y + size - 1);
    pen.stroke();
  } else {
    pen.strokeRect(x + 0.75, y + 0.75, size - 1.5, size - 1.5);
  }
  pen.globalAlpha = 1;
}

// A custom property keeps light-dark() unresolved; a real colour property resolves it.
function resolved(value, element) {
  const probe = document.createElement("i");
  element.after(probe);
  probe.style.color = value;
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
