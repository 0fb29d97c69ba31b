// Elements from values. Text is only ever set as text: nothing that a map, a model or a person wrote is read as markup.

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "class") element.className = value;
    else if (name === "style") for (const [key, given] of Object.entries(value)) element.style.setProperty(key, given);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const kbd = (text) => h("kbd", {}, text);

export function button(label, key, action, props = {}) {
  return h("button", { type: "button", ...props, on: { click: action } }, label, key ? kbd(key) : null);
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const byId = (id) => document.getElementById(id);

export const plural = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

export function debounced(action, wait_ms) {
  let timer = 0;
  const call = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...given), wait_ms);
  };
  call.cancel = () => clearTimeout(timer);
  return call;
}

export function toast(text, options = {}) {
  const box = byId("toasts");
  for (const other of [...box.children]) if (other.firstChild.textContent === text) other.remove();
  const shown = h("div", { class: `toast ${options.kind ?? ""}` }, h("span", {}, text));
  for (const [label, action] of options.actions ?? []) {
    shown.append(button(label, null, () => { shown.remove(); action(); }, { class: "small" }));
  }
  shown.append(button("×", null, () => shown.remove(), { class: "quiet small", "aria-label": "Dismiss" }));
  box.append(shown);
  while (box.children.length > 4) box.firstChild.remove();
  if (!options.stays) setTimeout(() => shown.remove(), options.for_ms ?? 5000);
  return shown;
}
