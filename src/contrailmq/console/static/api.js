// Requests to the console's own server.

const token = document.querySelector('meta[name="contrail-token"]')?.content ?? "";

export class Fault extends Error {
  constructor(status, body) {
    super(body.error ?? `status ${status}`);
    Object.assign(this, { status, hint: body.hint ?? "", code: body.code, kind: body.kind });
  }
}

export function address(path, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(kept).toString();
  return text ? `${path}?${text}` : path;
}

export async function get(path, query = {}, signal = undefined) {
  return read(await reach(address(path, query), { signal }));
}

export async function act(name, order) {
  const headers = { "content-type": "application/json", "x-contrail-token": token };
  return read(await reach(`/api/act/${name}`, { method: "POST", headers, body: JSON.stringify(order) }));
}

export async function logOut() {
  await fetch("/logout", { method: "POST", headers: { "x-contrail-token": token } });
  location.assign("/login");
}

async function reach(url, options) {
  try {
    return await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Fault(0, { error: "The console does not answer.", hint: "Is it still running? Then try again." });
  }
}

async function read(response) {
  const body = await response.json().catch(() => ({}));
  if (response.status === 401) location.assign(address("/login", { next: location.pathname }));
  if (!response.ok) throw new Fault(response.status, body);
  return body;
}

export const topicPath = (name) => `/topics/${encodeURIComponent(name)}`;
export const groupPath = (name) => `/groups/${encodeURIComponent(name)}`;
