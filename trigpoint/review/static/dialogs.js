// Dialogs: reasons, categories, keys, signing in, further browsers.

import { giveToken, post, sign } from "./api.js";
import { desk } from "./desk.js";
import { button, fill, h, kbd } from "./dom.js";
import { KEYS } from "./keys.js";

function open(title, content, options = {}) {
  const dialog = h("dialog", { class: options.class ?? "", "aria-label": title }, h("h2", {}, title), content);
  document.body.append(dialog);
  const answered = new Promise((resolve) => {
    dialog.answer = (value) => {
      dialog.answered = true;
      dialog.close();
      resolve(value);
    };
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (!dialog.answered) resolve(null);
    });
  });
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  if (options.stays) dialog.addEventListener("cancel", (event) => event.preventDefault());
  else dialog.addEventListener("pointerdown", (event) => event.target === dialog && dialog.close());
  dialog.showModal();
  return { dialog, answered };
}

export const isOpen = () => document.querySelector("dialog[open]") !== null;

const recent = [];

export function askReason(title, { isOptional = false, suggestions = [] } = {}) {
  const text = h("textarea", { rows: 3, maxLength: 1000, "aria-label": "Reason", placeholder: isOptional ? "Reason (optional)" : "Reason" });
  const go = button("Done", "Enter", () => done(), { class: "primary" });
  const said = [...new Set([...recent, ...suggestions])].slice(0, 6);
  const chips = said.map((one, k) => button(one, k < 9 ? `Alt+${k + 1}` : null, () => { text.value = one; done(); }, { class: "chip" }));
  const { dialog, answered } = open(title, h("div", { class: "stack" }, text, h("div", { class: "chips" }, chips), h("div", { class: "row end" }, button("Cancel", "Esc", () => dialog.close()), go)));
  function done() {
    const value = text.value.trim();
    if (!value && !isOptional) {
      text.setAttribute("aria-invalid", "true");
      text.focus();
      return;
    }
    if (value) recent.splice(0, recent.length, ...[value, ...recent.filter((one) => one !== value)].slice(0, 4));
    dialog.answer(value);
  }
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      done();
    }
    const k = event.altKey ? Number(event.code.replace("Digit", "")) - 1 : -1;
    if (k >= 0 && said[k]) {
      event.preventDefault();
      text.value = said[k];
      done();
    }
  });
  text.focus();
  return answered;
}

// one value per axis, found by any of its names
export function pickCategory(given) {
  const chosen = new Map();
  for (const id of given) {
    const category = desk.categories.get(id);
    if (category) chosen.set(category.axis, id);
  }
  let axis = desk.axes[0].id;
  let hits = [];
  let at = 0;
  const search = h("input", { type: "search", placeholder: "Search categories", "aria-label": "Search categories", autocomplete: "off", role: "combobox" });
  const tabs = h("div", { class: "tabs", role: "tablist" });
  const list = h("div", { class: "options", role: "listbox", "aria-label": "Categories" });
  const go = button("Use", "Enter", () => dialog.answer(desk.axes.map((one) => chosen.get(one.id)).filter(Boolean)), { class: "primary" });
  const { dialog, answered } = open("Category", h("div", { class: "stack" }, search, tabs, list, h("div", { class: "row end" }, button("Cancel", "Esc", () => dialog.close()), go)), { class: "picker" });

  function found() {
    const words = search.value.trim().toLowerCase();
    const all = [...desk.categories.values()].filter((one) => one.axis === axis);
    if (!words) return all;
    const rank = (one) => {
      const names = [one.name, ...one.also].map((name) => name.toLowerCase());
      if (names.some((name) => name === words)) return 0;
      if (names.some((name) => name.startsWith(words))) return 1;
      if (names.some((name) => name.includes(words))) return 2;
      return one.path.some((name) => name.toLowerCase().includes(words)) ? 3 : 9;
    };
    return all.map((one) => [rank(one), one]).filter(([order]) => order < 9).sort((a, b) => a[0] - b[0]).map(([, one]) => one);
  }

  function choose(category) {
    if (chosen.get(axis) === category.id && axis !== desk.axes[0].id) chosen.delete(axis);
    else chosen.set(axis, category.id);
    show();
  }

  function show() {
    hits = found();
    at = Math.max(0, Math.min(at, hits.length - 1));
    fill(tabs, desk.axes.map((one, k) => button(
      [h("span", {}, one.id.replaceAll("_", " ")), h("b", {}, desk.categories.get(chosen.get(one.id))?.name ?? "–")], `Alt+${k + 1}`,
      () => { axis = one.id; at = 0; search.value = ""; show(); search.focus(); }, { role: "tab", "aria-selected": String(one.id === axis) },
    )));
    fill(list, hits.length ? hits.map((one, k) => h(
      "button", { type: "button", role: "option", class: k === at ? "at" : "", "aria-selected": String(chosen.get(axis) === one.id), on: { click: () => choose(one), dblclick: () => go.click() } },
      h("span", { class: "name" }, one.name), h("span", { class: "path" }, one.path.join(" › ")), one.countable ? null : h("span", { class: "tag" }, "region"),
    )) : h("p", { class: "empty" }, `No category is called “${search.value}”.`));
    list.children[at]?.scrollIntoView?.({ block: "nearest" });
    go.disabled = !chosen.get(desk.axes[0].id);
  }

  search.addEventListener("input", () => { at = 0; show(); });
  dialog.addEventListener("keydown", (event) => {
    const k = event.altKey ? Number(event.code.replace("Digit", "")) - 1 : -1;
    if (event.key === "ArrowDown") at = Math.min(at + 1, hits.length - 1);
    else if (event.key === "ArrowUp") at = Math.max(at - 1, 0);
    else if (event.key === "Enter") {
      if (search.value && hits[at]) chosen.set(axis, hits[at].id);
      event.preventDefault();
      if (chosen.get(desk.axes[0].id)) return void dialog.answer(desk.axes.map((one) => chosen.get(one.id)).filter(Boolean));
    } else if (k >= 0 && desk.axes[k]) {
      axis = desk.axes[k].id;
      search.value = "";
    } else return;
    event.preventDefault();
    show();
  });
  show();
  search.focus();
  return answered;
}

export function confirmIt(title, text, label) {
  const go = button(label, "Enter", () => dialog.answer(true), { class: "primary" });
  const { dialog, answered } = open(title, h("div", { class: "stack" }, h("p", {}, text), h("div", { class: "row end" }, button("Cancel", "Esc", () => dialog.close()), go)));
  go.focus();
  return answered;
}

export function showKeys() {
  const groups = KEYS.map(({ title, keys }) => h("section", {}, h("h3", {}, title), h("dl", {}, keys.map(({ shown, does }) => [h("dt", {}, shown.map((key) => kbd(key))), h("dd", {}, does)]))));
  const { dialog } = open("Keys", h("div", { class: "stack" }, h("div", { class: "keys" }, groups), h("div", { class: "row end" }, button("Close", "Esc", () => dialog.close(), { class: "primary" }))), { class: "wide" });
  dialog.addEventListener("keydown", (event) => event.key === "?" && dialog.close());
}

const ROLES = { annotator: "Annotator: inspects and corrects", manager: "Manager: approves or returns", expert: "Expert: last pass on language" };

export function askName(isFirst) {
  const name = h("input", { type: "text", maxLength: 64, value: desk.me.who ?? localStorage.getItem("trigpoint:who") ?? "", "aria-label": "Your name", placeholder: "Your name", autocomplete: "off" });
  name.value = desk.me.who ?? localStorage.getItem("trigpoint:who") ?? "";
  const before = desk.me.role ?? localStorage.getItem("trigpoint:role") ?? "annotator";
  const roles = Object.entries(ROLES).map(([role, said]) => h("label", { class: "radio" }, h("input", { type: "radio", name: "role", value: role, checked: role === before }), said));
  const wrong = h("p", { class: "wrong", role: "alert" });
  const go = button(isFirst ? "Start" : "Sign", "Enter", () => done(), { class: "primary" });
  const { dialog, answered } = open("Who are you?", h("div", { class: "stack" },
    h("p", {}, "Every decision is kept with its author. Use the name that the policy of review and your colleagues know."),
    name, h("div", { class: "stack tight" }, roles), wrong,
    h("div", { class: "row end" }, isFirst ? null : button("Cancel", "Esc", () => dialog.close()), go)), { stays: isFirst });
  async function done() {
    try {
      const role = dialog.querySelector("input[name=role]:checked").value;
      const session = await sign(name.value.trim(), role);
      localStorage.setItem("trigpoint:who", session.who);
      localStorage.setItem("trigpoint:role", session.role);
      dialog.answer(session);
    } catch (error) {
      wrong.textContent = error.message;
      name.focus();
    }
  }
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      done();
    }
  });
  name.focus();
  return answered;
}

export function askToken(why) {
  const given = h("input", { type: "text", placeholder: "Link or token from the terminal", "aria-label": "Link or token", autocomplete: "off" });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const { dialog, answered } = open("Sign in again", h("div", { class: "stack" }, h("p", {}, why), given, wrong, h("div", { class: "row end" }, button("Open", "Enter", () => done(), { class: "primary" }))), { stays: true });
  async function done() {
    try {
      dialog.answer(await giveToken(given.value.trim().split("token=").at(-1)));
    } catch (error) {
      wrong.textContent = error.message;
    }
  }
  dialog.addEventListener("keydown", (event) => event.key === "Enter" && (event.preventDefault(), done()));
  given.focus();
  return answered;
}

export async function showLink() {
  const { token } = await post("/api/link");
  const link = `${location.origin}/#token=${token}`;
  const shown = h("input", { type: "text", readOnly: true, "aria-label": "Link", class: "mono" });
  shown.value = link;
  const copy = button("Copy", null, () => navigator.clipboard?.writeText(link), { class: "primary" });
  const { dialog } = open("A link for another browser", h("div", { class: "stack" }, h("p", {}, "It opens one browser, with a name of its own."), shown, h("div", { class: "row end" }, button("Close", "Esc", () => dialog.close()), copy)));
  shown.select();
}

export function showUnsent(entries, act) {
  const rows = entries.map((entry) => h("li", {}, h("b", {}, entry.intent.action), ` ${entry.label || entry.intent.item_id || "new mask"}`, entry.error ? h("div", { class: "wrong" }, entry.error) : h("div", { class: "quiet-text" }, "waits for the server"),
    h("div", { class: "row end" }, button("Show", null, () => { dialog.close(); act("show", entry); }, { class: "small" }), button("Discard", null, () => { dialog.close(); act("discard", entry); }, { class: "small" }))));
  const text = entries.length ? "Kept in this browser until the server has them." : "The server has every decision.";
  const { dialog } = open("Not sent yet", h("div", { class: "stack" }, h("p", {}, text), h("ul", { class: "unsent" }, rows), h("div", { class: "row end" }, button("Close", "Esc", () => dialog.close(), { class: "primary" }))));
}
