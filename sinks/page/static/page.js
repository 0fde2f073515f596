// Keeps an open page up to date and handles its buttons and keys. Everything comes from this server.

import { followFilters } from "./filters.js";
import { drawGrids, redrawGrids } from "./grid.js";

const find = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
document.documentElement.classList.add("scripted");

// Text

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function ago(seconds) {
  if (seconds >= -60 && seconds < 5) return "just now";
  const [size, name] = UNITS.find(([size]) => Math.abs(seconds) >= size);
  const distance = `${Math.floor(Math.abs(seconds) / size)} ${name}`;
  return seconds > 0 ? `${distance} ago` : `in ${distance} (clock skew?)`;
}

function updateTimes() {
  for (const time of all("time[data-ago]")) time.textContent = ago((Date.now() - Date.parse(time.dateTime)) / 1000);
}

function updateFreshness() {
  const live = find("[data-live-state]");
  const newest = Number(live.dataset.newestMs);
  if (!("freshness" in live.dataset)) return;
  const age = Date.now() - newest;
  live.dataset.freshness = !newest ? "unknown" : age > Number(live.dataset.oldAfterMs) ? "old" : "new";
  find("[data-age]").textContent = `newest line ${newest ? ago(age / 1000) : "not known"}`;
  find("[data-clock]").textContent = new Date().toISOString().slice(11, 16);
  if (live.dataset.liveState === "live") find("[data-live-text]").textContent = live.dataset.freshness === "new" ? "live" : "connected";
}

function announce(text) {
  find("[data-announce]").textContent = text;
}

let toastTimer;
function toast(text) {
  const element = find("[data-toast]");
  element.textContent = text;
  element.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => (element.hidden = true), 4000);
}

function updateTitle() {
  const count = find("[data-open-count]")?.dataset.openCount;
  const plain = document.title.replace(/^\(\d+\) /, "");
  document.title = count > 0 ? `(${count}) ${plain}` : plain;
}

// Live updates: when the server reports a change, fetch the page again and replace its live parts.

let version = document.body.dataset.version;
let shownAddress = location.href;
let isFetching = false;
let isPending = false;

async function refresh() {
  if (document.hidden) return;
  if (isFetching) return void (isPending = true);
  isFetching = true;
  try {
    do {
      isPending = false;
      const address = location.href;
      const answer = await fetch(address, { headers: { Accept: "text/html" } });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (address !== location.href) continue;
      applyUpdate(fresh, answer.ok);
      if (answer.ok) drawGrids();
      await new Promise((done) => setTimeout(done, 700));
    } while (isPending);
  } catch {
    setLive("offline", "no connection");
  } finally {
    isFetching = false;
  }
}

function applyUpdate(fresh, isOk) {
  const isUnreachable = find("[data-unreachable]");
  if (!isOk) return isUnreachable ? retryLater() : showBanner(find("[data-unreachable] p", fresh)?.textContent);
  if (isUnreachable) return location.reload();
  showBanner("");
  version = fresh.body.dataset.version;
  const known = new Set(all("[data-id]").map((row) => row.dataset.id));
  const hadRows = Boolean(find("#list"));
  for (const part of all("[data-live]")) replace(part, find(`#${part.id}`, fresh));
  if (shownAddress !== location.href) announce(find(".summary")?.textContent);
  else if (hadRows) announceNew(all("#list [data-id]").filter((row) => !known.has(row.dataset.id)));
  shownAddress = location.href;
  updateTimes();
  updateTitle();
}

function replace(part, fresh) {
  if (!fresh || part.outerHTML === fresh.outerHTML) return;
  if (isReading(part)) return void (isHeld = true);
  const open = new Map(all("details", part).map((details) => [nameOf(details), details.open]));
  const selected = new Set(all("[data-select]:checked", part).map((box) => box.value));
  const focused = part.contains(document.activeElement) && sameAs(document.activeElement, part);
  part.replaceWith(fresh);
  for (const details of all("details", fresh)) details.open = open.get(nameOf(details)) ?? details.open;
  for (const box of all("[data-select]", fresh)) box.checked = selected.has(box.value);
  updateSelection();
  if (focused) focused(fresh)?.focus({ preventScroll: true });
}

// A part with selected text is replaced once the selection is gone; a new address needs it at once.

let isHeld = false;

function isReading(part) {
  const selected = getSelection();
  return shownAddress === location.href && !selected.isCollapsed && selected.containsNode(part, true);
}

function showHeld() {
  if (!isHeld || !getSelection().isCollapsed) return;
  isHeld = false;
  refresh();
}

// Finds the counterpart of an element in a newer part: in the same row or the same fold, else in the whole part.
function sameAs(element, part) {
  const [row, fold] = [element.closest("[data-id]"), element.closest("details")];
  const home = (within) =>
    (row && all("[data-id]", within).find((other) => other.dataset.id === row.dataset.id)) ??
    (fold && all("details", within).find((other) => nameOf(other) === nameOf(fold))) ??
    within;
  const alike = (within) => all(element.localName, within).filter((other) => startTag(other) === startTag(element));
  const at = alike(home(part)).indexOf(element);
  return (fresh) => alike(home(fresh))[at] ?? alike(fresh)[0];
}

function startTag(element) {
  const copy = element.cloneNode(false);
  for (const name of ["class", "disabled"]) copy.removeAttribute(name);
  return copy.outerHTML;
}

function announceNew(rows) {
  if (!rows.length) return;
  for (const row of rows) row.classList.add("is-new");
  announce(`New: ${rows.map((row) => find("h3", row).textContent).join("; ")}`);
}

const nameOf = (details) => details.dataset.key ?? find("summary", details).textContent;

let retryTimer;
function retryLater() {
  clearTimeout(retryTimer);
  retryTimer = setTimeout(refresh, 3000);
}

function showBanner(text) {
  const banner = find("[data-banner]");
  banner.hidden = !text;
  banner.textContent = text ? `The store is not responding; this data may be out of date: ${text}` : "";
  if (text) retryLater();
}

function setLive(state, text) {
  const shown = find("[data-live-state]");
  if (shown.dataset.liveState === state) return;
  shown.dataset.liveState = state;
  find("[data-live-text]").textContent = text;
  updateFreshness();
}

function updateHealth(health) {
  const live = find("[data-live-state]");
  live.dataset.freshness ??= "unknown";
  live.dataset.newestMs = health.newest_ms ?? live.dataset.newestMs ?? "";
  updateFreshness();
  for (const shown of all("[data-health]")) {
    const value = health[shown.dataset.health];
    if (value === undefined) continue;
    shown.textContent = shown.dataset.unit === "length" ? ago(value).replace(" ago", "") : value.toLocaleString("en");
    if (shown.dataset.unit === "length" && find("[data-health-ago]")) find("[data-health-ago]").hidden = value < 5;
  }
  if (find("[data-live-always], [data-unreachable]")) refresh();
}

function listen() {
  const source = new EventSource("/events");
  source.addEventListener("open", () => {
    setLive("live", "live");
    if (shownAddress !== location.href) refresh();
  });
  source.addEventListener("error", () => setLive("offline", "reconnecting"));
  source.addEventListener("changed", (event) => event.data !== version && refresh());
  source.addEventListener("health", (event) => updateHealth(JSON.parse(event.data)));
  addEventListener("pagehide", () => source.close());
  document.addEventListener("visibilitychange", refresh);
  document.addEventListener("selectionchange", showHeld);
}

// Buttons and forms

async function post(address, body) {
  const answer = await fetch(address, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  await textOf(answer);
  getSelection().removeAllRanges();
  refresh();
}

async function textOf(answer) {
  const text = await answer.text();
  if (answer.ok) return text;
  const isJson = answer.headers.get("Content-Type")?.startsWith("application/json");
  throw new Error(isJson ? JSON.parse(text).error : `The server returned ${answer.status}. Reload the page and try again.`);
}

const selection = () => all("[data-select]:checked");

function updateSelection() {
  const bar = find(".bulk");
  if (!bar) return;
  const [selected, boxes] = [selection().length, all("[data-select]").length];
  const every = find("[data-select-all]", bar);
  every.checked = selected === boxes;
  every.indeterminate = selected > 0 && selected < boxes;
  find("[data-selected-count]", bar).textContent = selected ? `${selected} selected` : "Select all on this page";
  for (const button of all("[data-bulk]", bar)) button.disabled = !selected;
}

function showSelected(list) {
  const texts = new Set(selection().map((box) => box.dataset[list.dataset.selected]));
  list.replaceChildren(...[...texts].map((text) => Object.assign(document.createElement("li"), { textContent: text })));
}

function bodyOf(form) {
  const body = "ofSelected" in form.dataset ? { incident_ids: selection().map((box) => box.value) } : {};
  for (const [name, value] of new FormData(form)) {
    const [outer, inner] = name.split(".");
    if (inner) (body[outer] ??= {})[inner] = value;
    else body[outer] = value;
  }
  if (body.who) localStorage.setItem("who", body.who);
  return body;
}

const PREPOSITIONS = { class: "of class", node: "on node", job: "of job" };

function describeSilence(form) {
  const fields = all("[name^='matchers.']", form).map((field) => [field.name.split(".")[1], field.value.trim()]);
  const { cluster, ...labels } = Object.fromEntries(fields.filter(([, value]) => value));
  const matchers = Object.entries(labels).map(([name, value]) => ` ${PREPOSITIONS[name] ?? `with ${name}`} ${value}`);
  const where = cluster ? `in cluster ${cluster}` : "in every cluster";
  find("[data-mutes]", form).textContent = matchers.length
    ? `Silences every incident${matchers.join("")} ${where}.`
    : "Add a class, a node or a job: you can't silence a whole cluster.";
}

async function send(form) {
  const problem = find("[data-problem]", form);
  try {
    await post(form.dataset.post, bodyOf(form));
    form.closest("dialog").close();
    if ("ofSelected" in form.dataset) for (const box of selection()) box.checked = false;
    updateSelection();
    toast(form.dataset.done);
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
  }
}

async function copy(text, button, shown) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    return shown ? select(shown) : offer(text);
  }
  button.classList.add("is-done");
  setTimeout(() => button.classList.remove("is-done"), 2000);
  toast("Copied.");
}

function select(element) {
  getSelection().selectAllChildren(element);
  toast("Selected: press Ctrl+C to copy.");
}

function offer(text) {
  const field = find("[data-copy-text]");
  field.value = text;
  find("#copy").showModal();
  field.select();
}

async function onPress(button) {
  const { copyFrom, feedback, postTo, open, done } = button.dataset;
  const incident = find("[data-incident]")?.dataset.incident;
  if (copyFrom) {
    const text = await textOf(await fetch(copyFrom));
    await copy(copyFrom.endsWith(".md") ? text : JSON.stringify(JSON.parse(text), null, 2), button);
  } else if ("copyNext" in button.dataset) {
    const shown = all("pre", button.closest("figure")).at(-1);
    await copy(shown.textContent, button, shown);
  } else if ("copyThis" in button.dataset) {
    const shown = find("[data-copyable]", button.parentElement);
    await copy(shown.textContent, button, shown);
  } else if ("copyLink" in button.dataset) {
    await copy(location.origin + location.pathname, button);
  } else if (feedback) {
    await post(`/api/incidents/${incident}/feedback`, { verdict: feedback, who: localStorage.getItem("who") ?? "" });
    toast("Marked as right.");
  } else if ("undo" in button.dataset) {
    await post(`/api/incidents/${incident}/acknowledgement`, { undo: true, who: localStorage.getItem("who") ?? "" });
    toast("Acknowledgement withdrawn.");
  } else if (postTo) {
    await post(postTo, {});
    toast(done);
  } else if (open) {
    for (const list of all("[data-selected]", find(`#${open}`))) showSelected(list);
    find(`#${open}`).showModal();
  } else if ("close" in button.dataset) {
    button.closest("dialog").close();
  } else if ("themeToggle" in button.dataset) {
    toggleTheme();
  }
}

function toggleTheme() {
  const isDark = getComputedStyle(document.documentElement).colorScheme.includes("dark")
    ? document.documentElement.dataset.theme === "dark" || matchMedia("(prefers-color-scheme: dark)").matches
    : false;
  const theme = isDark ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("theme", theme);
  redrawGrids();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button) onPress(button).catch((error) => toast(error.message));
});
document.addEventListener("submit", (event) => {
  if (!event.target.dataset.post) return;
  event.preventDefault();
  send(event.target);
});
document.addEventListener("input", (event) => {
  const form = event.target.closest("form");
  if (form && find("[data-mutes]", form)) describeSilence(form);
});
document.addEventListener("change", (event) => {
  if ("selectAll" in event.target.dataset) for (const box of all("[data-select]")) box.checked = event.target.checked;
  updateSelection();
});
document.addEventListener("click", (event) => {
  const chosen = event.target.closest("[data-view-to]");
  if (!chosen) return;
  event.preventDefault();
  document.documentElement.dataset.view = chosen.dataset.viewTo;
  localStorage.setItem("view", chosen.dataset.viewTo);
});

// Keys

function step(by) {
  const rows = all("[data-row]");
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(Math.max(at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by, 0), rows.length - 1)]?.focus();
}

const go = (address) => () => location.assign(address);
const KEYS = {
  "/": () => find("[data-search]")?.focus() ?? location.assign("/#search"),
  j: () => step(1),
  k: () => step(-1),
  ArrowDown: () => step(1),
  ArrowUp: () => step(-1),
  "?": () => find("#help").showModal(),
  x: () => find("[data-select]", document.activeElement.closest("[data-id]") ?? document.head)?.click(),
  a: () => find("[data-key=a]")?.click(),
  l: () => find("[data-key=l]")?.click(),
  c: () => find("[data-key=c]")?.click(),
  b: () => find("[data-key=b]")?.click(),
  t: toggleTheme,
  "g i": go("/"),
  "g j": go("/jobs"),
  "g s": go("/silences"),
};

let before = "";
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea, select, dialog");
  if (event.key === "Escape" && event.target.matches("[data-search]")) event.target.blur();
  if (isTyping || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const isArrow = event.key.startsWith("Arrow");
  const action = KEYS[`${before} ${event.key}`.trim()] ?? KEYS[event.key];
  before = event.key === "g" ? "g" : "";
  if (!action || (isArrow && !find(".incidents [data-row]"))) return;
  event.preventDefault();
  action();
});

for (const summary of all("[data-mutes]")) describeSilence(summary.closest("form"));
for (const field of all("[data-who]")) field.value = localStorage.getItem("who") ?? "";
if (location.hash === "#search") find("[data-search]")?.focus();
followFilters(refresh);
updateTimes();
updateTitle();
updateSelection();
updateFreshness();
setInterval(() => (updateTimes(), updateFreshness()), 15000);
listen();
drawGrids();
