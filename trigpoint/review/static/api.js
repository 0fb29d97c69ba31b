// Requests to the server of this page.

let csrf = "";

export class Refused extends Error {
  constructor(status, data) {
    super(data?.error ?? `the server answered ${status}`);
    this.status = status;
    this.data = data ?? {};
  }
}

export class Unreachable extends Error {}

export async function call(method, path, body) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers: method === "GET" ? {} : { "content-type": "application/json", "x-trigpoint-csrf": csrf },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(30_000),
      credentials: "same-origin",
    });
  } catch (error) {
    throw new Unreachable(String(error));
  }
  let data = null;
  try {
    data = await answer.json();
  } catch {
    if (answer.ok) throw new Unreachable("the answer broke off");
  }
  if (!answer.ok) {
    if (answer.status === 401) document.dispatchEvent(new CustomEvent("signed-out"));
    throw new Refused(answer.status, data);
  }
  return data;
}

export const get = (path) => call("GET", path);
export const post = (path, body = {}) => call("POST", path, body);

function taken(session) {
  csrf = session.csrf;
  return session;
}

// A token from the link is exchanged for a cookie and leaves the address bar at once.
export async function openSession() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token !== null) {
    history.replaceState(null, "", location.pathname);
    try {
      return taken(await post("/api/session", { token }));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
    }
  }
  return taken(await get("/api/session"));
}

export const giveToken = async (token) => taken(await post("/api/session", { token }));
export const sign = async (who, role) => taken(await post("/api/sign", { who, role }));
