// The queue: filters, progress, and a list that only draws what is in sight.

import { desk, isMask, nameOfKind, nameOfScene, shortId, STATUS_COLOURS, STATUS_NAMES, tell, waitsForMe, when } from "./desk.js";
import { byId, button, debounced, fill, h, plural } from "./dom.js";
import { draftKeys, outbox } from "./outbox.js";

const ROW_PX = 46;
const LETTERS = { mask: "M", vocabulary: "V", referring: "R", reasoning: "Q", negative: "N" };
const DECIDED = ["approved", "rejected", "gone"];

export const filters = { status: "me", scene: "", kind: "", category: "", people: "", doubt: false, text: "", sort: "scene" };
let list = [];
let places = new Map();
const parts = {};

const STATUSES = {
  me: "for me", all: "all", todo: "to do", waiting: "waiting", returned: "returned", approved: "approved", rejected: "rejected", unseen: "nobody decided",
};

function fits(row, but = "") {
  const { status, scene, kind, category, people, doubt, text } = filters;
  if (but !== "status") {
    if (status === "me" ? !waitsForMe(row) : status === "todo" ? DECIDED.includes(row.status) : status === "unseen" ? row.people.length > 0 : status !== "all" && row.status !== status) return false;
    if (status !== "all" && row.status === "gone") return false;
  }
  if (but !== "scene" && scene && row.scene !== scene) return false;
  if (kind && (kind === "sentence" ? isMask(row) : row.kind !== kind)) return false;
  if (category && !(isMask(row) ? row.category.includes(category) : row.target === desk.categories.get(category)?.name)) return false;
  const mine = row.people.includes(desk.me.who);
  if (people === "mine" && !mine) return false;
  if (people === "others" && !row.people.some((who) => who !== desk.me.who)) return false;
  if (people === "nobody" && row.people.length) return false;
  if (doubt && row.doubt !== "undecidable" && row.doubt !== "contradicted") return false;
  if (text) {
    const words = text.toLowerCase();
    const said = `${row.label} ${row.id} ${row.scene} ${row.target ?? ""} ${row.basis} ${row.people.join(" ")}`.toLowerCase();
    if (!said.includes(words)) return false;
  }
  return true;
}

const areaOf = (row) => desk.shapes.get(row.scene)?.get(row.id)?.area_px ?? 0;

const ORDERS = {
  scene: ["scene", () => 0],
  doubt: ["doubtful first", (a, b) => (b.doubt === "undecidable") - (a.doubt === "undecidable")],
  returned: ["returned first", (a, b) => (b.status === "returned") - (a.status === "returned")],
  label: ["name", (a, b) => a.label.localeCompare(b.label)],
  large: ["largest first", (a, b) => areaOf(b) - areaOf(a)],
  small: ["smallest first", (a, b) => areaOf(a) - areaOf(b)],
};

const KIND_ORDER = { mask: 0, vocabulary: 1, referring: 2, reasoning: 3, negative: 4 };

const keptKey = () => `trigpoint:filters:${desk.name}`;

function keepFilters() {
  try {
    sessionStorage.setItem(keptKey(), JSON.stringify(filters));
  } catch { /* the filters are then those of the start after a reload */ }
}

function keptFilters() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(keptKey()) ?? "null");
    return kept && (!kept.scene || desk.scenes.has(kept.scene)) && ORDERS[kept.sort] && STATUSES[kept.status] ? kept : null;
  } catch {
    return null;
  }
}

export function refilter() {
  keepFilters();
  const order = ORDERS[filters.sort][1];
  const scene = (row) => desk.scenes.get(row.scene)?.order ?? 0;
  list = [...desk.rows.values()].filter((row) => fits(row));
  list.sort((a, b) => order(a, b) || scene(a) - scene(b) || KIND_ORDER[a.kind] - KIND_ORDER[b.kind] || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  places = new Map(list.map((row, k) => [row.id, k]));
  draw();
}

export const inQueue = (id) => places.has(id);
export const queueLength = () => list.length;
export const first = () => list[0] ?? null;

// the item before or after another one; `from` may have left the list, its place is then where it would stand
let lastPlace = 0;
export function beside(id, step) {
  const at = places.get(id);
  if (at === undefined) return list[Math.min(lastPlace, list.length - 1)] ?? null;
  return list[at + step] ?? null;
}

export function rememberPlace(id) {
  lastPlace = places.get(id) ?? lastPlace;
}

export function nextForMe(id) {
  const start = (places.get(id) ?? -1) + 1;
  const here = [...list.slice(start), ...list.slice(0, start)].find(waitsForMe);
  return here ?? [...desk.rows.values()].find((row) => waitsForMe(row) && row.id !== id) ?? null;
}

function countsOf(rows) {
  const counts = { approved: 0, rejected: 0, returned: 0, waiting: 0, n: 0 };
  for (const row of rows) {
    if (row.status === "gone") continue;
    counts[row.status]++;
    counts.n++;
  }
  return counts;
}

export function bar(counts) {
  const share = (n) => `${(100 * n) / Math.max(1, counts.n)}%`;
  return h("span", { class: "bar" }, ["approved", "rejected", "returned"].map((status) => h("span", { class: status, style: { width: share(counts[status]) } })));
}

function drawProgress() {
  const counts = countsOf(desk.rows.values());
  const decided = counts.approved + counts.rejected;
  const text = `${decided.toLocaleString("en")} of ${plural(counts.n, "item")} decided`;
  fill(byId("progress"), bar(counts), h("span", { class: "quiet-text" }, text));
  byId("progress").setAttribute("aria-label", text);
  byId("progress").title = `${counts.approved} approved, ${counts.rejected} rejected, ${counts.returned} returned, ${counts.waiting} waiting`;
}

function select(name, label, options) {
  const element = h("select", { "aria-label": label, on: { change: () => { filters[name] = element.value; changed(); } } },
    options.map(([value, text]) => h("option", { value }, text)));
  element.value = filters[name];
  return element;
}

export function setFilter(change) {
  Object.assign(filters, change);
  changed();
}

function changed() {
  drawFilters();
  refilter();
  tell("filtered");
}

function isNarrowed() {
  return filters.scene || filters.kind || filters.category || filters.people || filters.doubt || filters.text;
}

function drawFilters() {
  const rows = [...desk.rows.values()];
  const counts = Object.fromEntries(Object.keys(STATUSES).map((status) => [status, 0]));
  for (const row of rows) {
    if (!fits(row, "status")) continue;
    counts.all++;
    if (row.status === "gone") continue;
    counts[row.status]++;
    if (!DECIDED.includes(row.status)) counts.todo++;
    if (!row.people.length) counts.unseen++;
    if (waitsForMe(row)) counts.me++;
  }
  const kinds = new Set(rows.map((row) => row.kind));
  const categories = [...new Set(rows.filter(isMask).flatMap((row) => row.category))].map((id) => [id, desk.categories.get(id)?.name ?? id]).sort((a, b) => a[1].localeCompare(b[1]));
  const perScene = new Map([...desk.scenes.keys()].map((id) => [id, []]));
  for (const row of rows) perScene.get(row.scene)?.push(row);
  const sceneRow = (id, name, note, counted) => h("button", { type: "button", role: "option", "aria-selected": String(filters.scene === id), on: { click: () => { parts.scenes.open = false; setFilter({ scene: id }); if (id) tell("open-scene", id); } } },
    h("span", { class: "name" }, name), note ? h("span", { class: "quiet-text" }, note) : null, bar(counted), h("span", { class: "quiet-text num" }, `${counted.approved + counted.rejected}/${counted.n}`));
  const scene = desk.scenes.get(filters.scene);
  const wasOpen = parts.scenes?.open ?? false;
  parts.scenes = h("details", { class: "scenes", open: wasOpen },
    h("summary", {}, h("span", { class: "name" }, scene ? nameOfScene(scene) : `All ${plural(desk.scenes.size, "scene")}`), h("span", { class: "caret" }, "▾")),
    h("div", { class: "menu", role: "listbox", "aria-label": "Scenes" },
      sceneRow("", `All ${plural(desk.scenes.size, "scene")}`, "", countsOf(rows)),
      [...desk.scenes.values()].map((one) => sceneRow(one.scene_id, nameOfScene(one), one.acquired ?? "", countsOf(perScene.get(one.scene_id))))));
  fill(parts.filters,
    parts.scenes,
    h("div", { class: "pills", role: "radiogroup", "aria-label": "Status" }, ["me", "todo", "returned", "approved", "rejected", "all"].map((status) => h(
      "button", { type: "button", role: "radio", "aria-checked": String(filters.status === status), class: `pill ${status}`, title: STATUSES[status], on: { click: () => setFilter({ status }) } },
      STATUSES[status], h("b", {}, counts[status].toLocaleString("en"))))),
    h("div", { class: "grid" },
      select("kind", "Kind", [["", "all kinds"], ...["mask", "vocabulary", "referring", "reasoning", "negative"].filter((kind) => kinds.has(kind)).map((kind) => [kind, nameOfKind(kind)]), ...(kinds.size > 2 ? [["sentence", "all sentences"]] : [])]),
      select("category", "Category", [["", "all categories"], ...categories]),
      select("people", "People", [["", "anyone's"], ["mine", "decided by me"], ["others", "decided by others"], ["nobody", "nobody decided"]]),
      select("sort", "Order", Object.entries(ORDERS).map(([value, [name]]) => [value, `by ${name}`]))),
    h("div", { class: "row" }, parts.search,
      rows.some((row) => row.doubt) ? h("label", { class: "check", title: "Only sentences with a claim that the ground does not support" }, h("input", { type: "checkbox", checked: filters.doubt, on: { change: (event) => setFilter({ doubt: event.target.checked }) } }), "doubtful") : null));
  parts.search.value = filters.text;
}

function rowElement(row) {
  const waiting = outbox.of(row.id);
  const isStuck = waiting.some((entry) => entry.state !== "waiting");
  const draft = parts.drafts.has(row.id);
  const sub = [nameOfScene(desk.scenes.get(row.scene)), isMask(row) ? (row.changed ? "edited" : "") : row.target].filter(Boolean).join(" · ");
  return h("div", {
    class: `item ${row.id === desk.current ? "current" : ""} ${desk.chosen.has(row.id) ? "chosen" : ""}`, role: "option", id: `row-${row.id}`, "aria-selected": String(row.id === desk.current),
    style: { top: `${places.get(row.id) * ROW_PX}px` }, data: { id: row.id }, on: { click: () => tell("open-item", row.id) },
  },
    h("span", { class: `kind ${row.kind}`, title: nameOfKind(row.kind) }, LETTERS[row.kind]),
    h("span", { class: "text" }, h("span", { class: "name", title: row.label }, row.label), h("span", { class: "sub" }, sub)),
    row.doubt === "undecidable" ? h("span", { class: "badge doubt", title: "a claim that the ground cannot decide" }, "?") : null,
    draft ? h("span", { class: "badge draft", title: "an edit that is not saved" }, "✎") : null,
    isStuck ? h("span", { class: "badge bad", title: "a decision of yours was not taken" }, "!") : waiting.length ? h("span", { class: "badge", title: "on its way" }, "↑") : null,
    h("span", { class: "dot", title: `${STATUS_NAMES[row.status]}: ${row.basis}`, style: { background: STATUS_COLOURS[row.status] } }));
}

function draw() {
  if (!parts.scroll) return;
  parts.drafts = new Set(draftKeys());
  const from = Math.max(0, Math.floor(parts.scroll.scrollTop / ROW_PX) - 4);
  const to = Math.min(list.length, Math.ceil((parts.scroll.scrollTop + parts.scroll.clientHeight) / ROW_PX) + 4);
  parts.space.style.height = `${list.length * ROW_PX}px`;
  fill(parts.space, list.slice(from, to).map(rowElement));
  if (desk.current && places.has(desk.current)) parts.space.setAttribute("aria-activedescendant", `row-${desk.current}`);
  fill(parts.count, `${plural(list.length, "item")}${isNarrowed() ? " match" : ""}`, isNarrowed() ? button("clear filters", null, () => setFilter({ scene: "", kind: "", category: "", people: "", doubt: false, text: "" }), { class: "link" }) : null);
  parts.empty.hidden = list.length > 0;
  if (!list.length) fill(parts.empty, emptyText());
}

function emptyText() {
  if (!desk.rows.size) return [h("h3", {}, "Nothing to review"), h("p", {}, "The build proposed no mask and no sentence. Check its sources, then start the page again.")];
  if (isNarrowed()) return [h("h3", {}, "Nothing matches"), h("p", {}, "No item passes these filters."), button("Clear filters", null, () => setFilter({ scene: "", kind: "", category: "", people: "", doubt: false, text: "" }))];
  if (filters.status === "me") return [h("h3", {}, "All done"), h("p", {}, "Nothing waits for you. The next build takes your decisions up."), button("Look at all items", null, () => setFilter({ status: "all" }))];
  return [h("h3", {}, "Nothing here"), button("Look at all items", null, () => setFilter({ status: "all" }))];
}

export function reveal(id) {
  const at = places.get(id);
  if (at !== undefined) {
    const top = at * ROW_PX;
    const { scrollTop, clientHeight } = parts.scroll;
    if (top < scrollTop) parts.scroll.scrollTop = Math.max(0, top - ROW_PX);
    else if (top + ROW_PX > scrollTop + clientHeight) parts.scroll.scrollTop = top - clientHeight + 2 * ROW_PX;
  }
  draw();
}

export const focusSearch = () => {
  parts.search.focus();
  parts.search.select();
};

export function openQueue() {
  parts.filters = h("div", { class: "filters" });
  parts.search = h("input", { type: "search", placeholder: "Search  ( / )", "aria-label": "Search the queue", autocomplete: "off" });
  const seek = () => { filters.text = parts.search.value.trim(); refilter(); tell("filtered"); };
  const sought = debounced(seek, 80);
  parts.search.addEventListener("input", sought);
  parts.search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "Escape") {
      sought.cancel();
      if (event.key === "Escape") setFilter({ text: "" });
      else seek();
      parts.search.blur();
      event.preventDefault();
      if (event.key === "Enter" && list[0]) tell("open-item", list[0].id);
    }
    event.stopPropagation();
  });
  parts.space = h("div", { class: "space", role: "listbox", "aria-label": "Items" });
  parts.scroll = h("div", { class: "scroll", on: { scroll: () => requestAnimationFrame(draw) } }, parts.space);
  parts.empty = h("div", { class: "empty", hidden: true });
  parts.count = h("div", { class: "count quiet-text" });
  fill(byId("queue"), parts.filters, parts.count, h("div", { class: "listbox" }, parts.scroll, parts.empty));
  new ResizeObserver(draw).observe(parts.scroll);
  document.addEventListener("pointerdown", (event) => {
    if (parts.scenes?.open && !parts.scenes.contains(event.target)) parts.scenes.open = false;
  });
  const someone = [...desk.rows.values()].some(waitsForMe);
  Object.assign(filters, keptFilters() ?? { status: someone ? "me" : "all" });
  drawFilters();
  drawProgress();
  refilter();
  const later = debounced(() => { drawFilters(); drawProgress(); }, 120);
  when("rows", () => { refilter(); later(); });
  when("outbox", draw);
  when("chosen", draw);
  when("signed", () => { drawFilters(); refilter(); });
}
