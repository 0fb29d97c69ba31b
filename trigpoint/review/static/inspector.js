// The item: what it says, what the ground says of it, who decided what, and the buttons that decide.

import { post, Refused } from "./api.js";
import { canReturn, desk, isMask, nameOfKind, nameOfScene, ruleOf, STATUS_COLOURS, STATUS_NAMES, tell, waitsForMe, when } from "./desk.js";
import { askReason } from "./dialogs.js";
import { byId, button, debounced, fill, h, plural, toast } from "./dom.js";
import { decide, draftOf, drop, dropDraft, intentOn, keepDraft, outbox, redo } from "./outbox.js";

const VERDICTS = { supported: "holds", contradicted: "is contradicted", undecidable: "cannot be decided" };
const SIGNS = { supported: "✓", contradicted: "✕", undecidable: "?" };
const POLICIES = {
  none: "no policy: everything passes unless it is rejected", single: "one person decides",
  "annotator+manager": "an annotator and a manager, two people", unanimous: "everyone of a group, in every round",
};
const PAST = { accept: "accepted", reject: "rejected", return: "returned", edit: "edited", add: "drew", split: "split", merge: "merged", undo: "undid", comment: "remarked" };

const TOLD_APART = { true: "can be told apart", false: "cannot be told apart" };

let writing = null; // the sentence that is being written

export const isWriting = () => writing !== null;

// text with the words of every claim marked; the worst claim on a word wins
function marked(text, claims) {
  const worst = { supported: 1, undecidable: 2, contradicted: 3 };
  const owner = new Array(text.length).fill(null);
  const lower = text.toLowerCase();
  for (const claim of [...claims].sort((a, b) => worst[a.verdict] - worst[b.verdict])) {
    const words = claim.text.toLowerCase();
    const at = words.length && words.length < 0.95 * lower.length ? lower.indexOf(words) : -1;
    for (let k = at; at >= 0 && k < at + words.length; k++) owner[k] = claim;
  }
  const parts = [];
  for (let k = 0; k < text.length; ) {
    let end = k + 1;
    while (end < text.length && owner[end] === owner[k]) end++;
    const claim = owner[k];
    const piece = text.slice(k, end);
    parts.push(claim ? h("mark", { class: claim.verdict, tabindex: claim.verdict === "supported" ? null : "0", title: `${claim.kind}: ${claim.measured || VERDICTS[claim.verdict]}` }, piece) : piece);
    k = end;
  }
  return parts;
}

function claimList(check) {
  if (!check.claims.length) return null;
  return h("ul", { class: "claims", "aria-label": "Claims" }, [...check.claims].sort((a, b) => (b.verdict !== "supported") - (a.verdict !== "supported")).map((claim) => h(
    "li", { class: claim.verdict }, h("span", { class: "sign", title: VERDICTS[claim.verdict] }, SIGNS[claim.verdict]),
    h("div", {}, h("span", { class: "claim-text" }, `“${claim.text}”`), h("span", { class: "measured" }, `${claim.kind.replaceAll("_", " ")} ${VERDICTS[claim.verdict]}${claim.measured ? `: ${claim.measured}` : ""}`)),
  )));
}

const verdictChip = (check) => h("span", { class: `verdict ${check.verdict}` }, `${SIGNS[check.verdict]} ${{ supported: "the ground supports it", contradicted: "the ground contradicts it", undecidable: "the ground cannot decide it" }[check.verdict]}`);

function time(at) {
  if (!at) return "";
  const date = new Date(at);
  const isToday = date.toDateString() === new Date().toDateString();
  return h("time", { datetime: at, title: date.toLocaleString() }, isToday ? date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : date.toLocaleDateString([], { day: "numeric", month: "short" }));
}

function changesOf(event) {
  const { changes } = event;
  return [
    changes.category ? h("div", { class: "change" }, h("del", {}, changes.category[0]), " → ", h("ins", {}, changes.category[1])) : null,
    changes.separable ? h("div", { class: "change" }, `${TOLD_APART[changes.separable[0]]} → ${TOLD_APART[changes.separable[1]]}`) : null,
    changes.area_px ? h("div", { class: "change" }, `${changes.area_px[0].toLocaleString("en")} → ${changes.area_px[1].toLocaleString("en")} px`) : null,
    changes.text ? h("div", { class: "change" }, h("del", {}, changes.text[0]), h("br"), h("ins", {}, changes.text[1])) : null,
    event.action === "split" ? h("div", { class: "change" }, `into ${plural(event.parts, "piece")}`) : null,
    event.action === "merge" ? h("div", { class: "change" }, `with ${plural(event.merged, "neighbour")}`) : null,
  ];
}

function historyOf(detail) {
  const events = detail.history.map((event) => h("li", { class: event.undone ? "undone" : "" },
    h("span", { class: `mark-of ${event.action}` }),
    h("div", {}, h("div", { class: "event" }, h("b", {}, event.who), h("span", { class: "role" }, event.role), h("span", {}, PAST[event.action] + (event.item === detail.row.id || event.action === "undo" ? "" : " it")), event.round > 1 ? h("span", { class: "role" }, `round ${event.round}`) : null, h("span", { class: "grow" }), time(event.at)),
      event.reason ? h("div", { class: "said" }, event.reason) : null, changesOf(event), event.undone ? h("div", { class: "quiet-text" }, "undone") : null)));
  return h("section", {}, h("h3", {}, "History"), h("ol", { class: "history" }, h("li", {}, h("span", { class: "mark-of" }), h("div", { class: "event" }, h("span", {}, "proposed by the build"))), events));
}

export function undoableOn(detail) {
  const counted = detail.history.filter((event) => !event.undone && event.action !== "undo");
  const last = counted.at(-1);
  return last && last.who === desk.me.who && last.action !== "comment" && last.item === detail.row.id ? last : null;
}

function stuckBox(row) {
  const entry = outbox.stuckOf(row.id);
  if (!entry) return null;
  const isConflict = entry.state === "conflict";
  const { intent } = entry;
  const mine = intent.text ?? (intent.drawn ? "your drawing" : intent.reason || intent.action);
  const canRedo = desk.rows.has(row.id) && row.status !== "gone" && intent.action !== "undo";
  return h("div", { class: "box bad", role: "alert" },
    h("b", {}, isConflict ? "Somebody was faster" : "Not taken"),
    h("p", {}, entry.error),
    h("p", { class: "quiet-text" }, `You wanted to ${intent.action}: ${mine}. It is kept here.`),
    h("div", { class: "row" },
      canRedo && isConflict ? button(intent.action === "edit" ? "Save mine on the new state" : `Still ${intent.action}`, null, () => { redo(entry, desk.rows.get(row.id)); }, { class: "small primary" }) : null,
      !isConflict && intent.action === "edit" && intent.text ? button("Write on", null, () => { keepDraft(row.id, { kind: "text", text: intent.text, version: row.version, previous: row.newest }); drop(entry); writeSentence(desk.rows.get(row.id)); }, { class: "small primary" }) : null,
      button("Discard mine", null, () => { drop(entry); drawInspector(); }, { class: "small" })));
}

function facts(rows) {
  return h("dl", { class: "facts" }, rows.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function areaText(area_px, scene) {
  const m2 = area_px * scene.gsd_m * scene.gsd_m;
  return `${area_px.toLocaleString("en")} px · ${m2 >= 1e4 ? `${(m2 / 1e4).toFixed(2)} ha` : `${m2.toFixed(m2 < 10 ? 1 : 0)} m²`}`;
}

function actions(row, detail) {
  const isGone = row.status === "gone";
  const check = detail?.check;
  const isRefused = check?.verdict === "contradicted";
  const act = (name) => () => tell("command", name);
  const undo = detail ? undoableOn(detail) : null;
  return h("div", { class: "actions" },
    h("div", { class: "decide" },
      button("Accept", "A", act("accept"), { class: "accept", disabled: isGone || isRefused, title: isRefused ? "The ground contradicts it" : "" }),
      canReturn(row) ? button("Return", "R", act("return"), { class: "return", disabled: isGone }) : null,
      button("Reject", "X", act("reject"), { class: "reject", disabled: isGone })),
    h("div", { class: "row wrap" },
      button("Edit", "E", act("edit"), { disabled: isGone, class: "small" }),
      isMask(row) ? [button("Brush", "B", act("brush"), { disabled: isGone, class: "small" }), button("Category", "C", act("category"), { disabled: isGone, class: "small" }), button("Cannot be told apart", "T", act("separable"), { disabled: isGone, class: "small", "aria-pressed": String(!row.separable) }), button("Split", "S", act("split"), { disabled: isGone, class: "small" }),
        button(desk.chosen.size ? `Merge ${desk.chosen.size + 1}` : "Merge", "M", act("merge"), { disabled: isGone, class: "small" })] : null,
      undo ? button(`Undo ${undo.action}`, null, () => decide(intentOn(row, "undo", { undoes: undo.id }), null, row.label), { class: "small" }) : null,
      button("Remark", "W", act("comment"), { class: "small" })));
}

function statusLine(row) {
  const waiting = outbox.of(row.id).find((entry) => entry.state === "waiting");
  const waits = row.waits.filter((who) => who !== "anyone");
  return h("div", { class: "status-line" },
    h("span", { class: "status", style: { "--colour": STATUS_COLOURS[row.status] } }, STATUS_NAMES[row.status]),
    h("span", { class: "quiet-text" }, waiting ? `your ${waiting.intent.action} is on its way` : row.basis),
    waits.length ? h("span", { class: "quiet-text" }, `waits for ${waits.join(", ")}${waitsForMe(row) ? ": that is you" : ""}`) : null);
}

export function drawInspector() {
  const panel = byId("inspector");
  const row = desk.rows.get(desk.current);
  if (!row) {
    const scene = desk.scenes.get(desk.scene);
    fill(panel, h("div", { class: "empty" }, h("h3", {}, "No item is open"), h("p", {}, "Choose one in the queue or click an outline in the picture."), scene ? button("Draw a new mask", "Shift+N", () => tell("command", "new")) : null));
    return;
  }
  if (writing && writing.id === row.id) return;
  writing = null;
  const detail = desk.details.get(row.id);
  const scene = desk.scenes.get(row.scene);
  const head = h("div", { class: "head" }, h("span", { class: `kind-name ${row.kind}` }, nameOfKind(row.kind)), h("button", { type: "button", class: "id", title: "Copy the id", on: { click: () => navigator.clipboard?.writeText(row.id) } }, row.id));
  const body = isMask(row) ? maskBody(row, detail, scene) : sentenceBody(row, detail, scene);
  const rule = ruleOf(row);
  fill(panel, head, body, statusLine(row), stuckBox(row), actions(row, detail),
    detail ? historyOf(detail) : h("p", { class: "quiet-text" }, "Loading …"),
    h("p", { class: "quiet-text policy" }, `Policy: ${POLICIES[rule.policy] ?? rule.policy}.`));
}

function maskBody(row, detail, scene) {
  const was = detail && detail.proposed.category && detail.proposed.category.join() !== row.category.join() ? detail.proposed.label : null;
  const shape = desk.shapes.get(row.scene)?.get(row.id);
  const parts = desk.axes.map((axis) => [axis, row.category.map((id) => desk.categories.get(id)).find((category) => category?.axis === axis.id)]).filter(([, category]) => category);
  return h("div", { class: "stack tight" }, h("h2", {}, row.label),
    facts([
      ...parts.slice(parts.length > 1 ? 0 : 1).map(([axis, category]) => [axis.id.replaceAll("_", " "), category.name]),
      ["area", shape ? areaText(shape.area_px, scene) : null],
      ["instances", row.separable ? null : `${TOLD_APART.false} here: no boxes`],
      ["proposed as", was],
      ["scene", nameOfScene(scene)],
      ["date", scene.acquired],
    ]),
    desk.chosen.size ? h("p", { class: "box" }, `${plural(desk.chosen.size, "neighbour")} chosen for merging. `, button("Clear", null, () => { desk.chosen.clear(); tell("chosen"); }, { class: "link" })) : null);
}

function sentenceBody(row, detail, scene) {
  const check = detail?.check;
  const text = detail?.value.text ?? row.label;
  const draft = draftOf(row.id);
  return h("div", { class: "stack tight" },
    h("p", { class: "sentence", lang: "en", on: { dblclick: () => tell("command", "edit") } }, check ? marked(text, check.claims) : text),
    check ? verdictChip(check) : null,
    check ? claimList(check) : null,
    detail?.note ? h("p", { class: "quiet-text" }, detail.note) : null,
    draft?.kind === "text" && draft.text !== text ? h("p", { class: "box" }, "You were writing another text. ", button("Go on", "E", () => tell("command", "edit"), { class: "link" }), button("Forget it", null, () => { dropDraft(row.id); tell("draft"); drawInspector(); }, { class: "link" })) : null,
    facts([
      ["asks for", row.kind === "negative" ? "something that must be absent" : `${row.target}: ${plural(detail?.about?.instances.length ?? 0, "instance")} (bright in the picture)`],
      ["proposed as", detail && detail.proposed.text !== text ? detail.proposed.text : null],
      ["scene", nameOfScene(scene)],
    ]));
}

// writing a sentence: checked while it is written

export function writeSentence(row) {
  const detail = desk.details.get(row.id);
  if (!detail) return;
  const draft = draftOf(row.id);
  const isDraft = draft?.kind === "text";
  const version = isDraft ? draft.version : row.version;
  const previous = isDraft ? draft.previous : row.newest;
  const field = h("textarea", { rows: 4, maxLength: 1000, "aria-label": "Sentence", spellcheck: "true", lang: "en" });
  field.value = isDraft ? draft.text : detail.value.text;
  const found = h("div", { class: "stack tight", "aria-live": "polite" });
  const reason = h("input", { type: "text", maxLength: 1000, placeholder: "Reason (optional)", "aria-label": "Reason" });
  const save = button("Save", "Enter", () => done(), { class: "primary", disabled: true });
  let check = null;
  let asked = 0;
  writing = { id: row.id };

  const ask = debounced(async () => {
    const text = field.value.replace(/\s+/g, " ").trim();
    const number = ++asked;
    try {
      const said = text ? await post("/api/check", { item_id: row.id, text }) : null;
      if (number !== asked) return;
      check = said;
      const isSame = text === detail.value.text;
      fill(found, said ? [h("p", { class: "sentence small" }, marked(text, said.claims)), verdictChip(said), claimList(said),
        said.correction ? button(`Use: ${said.correction}`, null, () => { field.value = said.correction; typed(); }, { class: "small" }) : null] : null);
      save.disabled = !said || said.verdict === "contradicted" || isSame;
      save.title = said?.verdict === "contradicted" ? "The ground contradicts it: it would never be released" : isSame ? "Nothing is changed" : "";
      if (said?.verdict === "contradicted") found.append(h("p", { class: "wrong" }, "It cannot be saved while the ground contradicts it."));
    } catch (error) {
      fill(found, h("p", { class: "wrong" }, error instanceof Refused ? error.message : "The server cannot be reached: the text is kept here, and checked when it is back."));
      if (!(error instanceof Refused)) setTimeout(ask, 2000);
    }
  }, 220);

  function typed() {
    save.disabled = true;
    keepDraft(row.id, { kind: "text", text: field.value, version, previous });
    tell("draft");
    ask();
  }

  function leave() {
    writing = null;
    ask.cancel();
    tell("draft");
    drawInspector();
  }

  function done() {
    if (save.disabled) return;
    const text = field.value.replace(/\s+/g, " ").trim();
    dropDraft(row.id);
    decide({ ...intentOn(row, "edit", { text, reason: reason.value.trim() }), version, previous }, null, text);
    leave();
    tell("edited", { kind: "text", row });
    if (check?.verdict === "undecidable") toast("Saved; the ground cannot decide it, so that a person must accept it.");
  }

  function pressed(event) {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      done();
    } else if (event.key === "Escape") {
      event.preventDefault();
      dropDraft(row.id);
      leave();
    }
    event.stopPropagation();
  }
  field.addEventListener("input", typed);
  field.addEventListener("keydown", pressed);
  reason.addEventListener("keydown", pressed);
  fill(byId("inspector"), h("div", { class: "head" }, h("span", { class: `kind-name ${row.kind}` }, nameOfKind(row.kind)), h("span", { class: "id" }, row.id)),
    h("h3", {}, "Change the text"), field, reason, found,
    h("div", { class: "row end" }, button("Cancel", "Esc", () => { dropDraft(row.id); leave(); }), save));
  field.focus();
  field.setSelectionRange(field.value.length, field.value.length);
  ask();
}

export function stopWriting() {
  writing = null;
}

// deciding

export async function decideWithReason(row, action) {
  const titles = { return: "Return it", reject: "Reject it", comment: "A remark", accept: "Accept with a remark" };
  const suggestions = isMask(row)
    ? { return: ["The outline is off", "Wrong category", "Two objects in one mask"], reject: ["Nothing is there", "Not of any category here", "A duplicate"] }[action]
    : { return: ["Does not name the target alone", "Bad English"], reject: ["Names the category", "Cannot be seen in the picture"] }[action];
  const reason = await askReason(`${titles[action]}: ${row.label.slice(0, 60)}`, { isOptional: action === "accept", suggestions: suggestions ?? [] });
  if (reason === null) return false;
  decide(intentOn(desk.rows.get(row.id) ?? row, action, { reason }), null, row.label);
  return true;
}

when("detail", (id) => { if (id === desk.current) drawInspector(); });
when("outbox", drawInspector);
when("chosen", drawInspector);
when("shapes", drawInspector);
