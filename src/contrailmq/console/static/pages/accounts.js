import { get } from "../api.js";
import { h, replace } from "../dom.js";
import { ask, button, chip, empty, faultBox, field, head, perform, table } from "../ui.js";

export async function render(main) {
  const box = h("div");
  async function edit(account = {}) {
    const isNew = !account.name;
    const fields = await ask(isNew ? "Add an account" : `Change ${account.name}`, h(".stack", {},
      field("Name (access key, 6 characters or more)", h("input", { name: "name", required: true, minlength: 6, value: account.name ?? "", readonly: !isNew, autocomplete: "off" })),
      field(isNew ? "Secret (6 characters or more)" : "New secret; empty keeps it", h("input", { name: "secret", type: "password", autocomplete: "new-password", required: isNew })),
      field("Topics: name=PUB|SUB, with commas between", h("input", { name: "topics", value: (account.topics ?? []).join(",") })),
      field("Groups: name=SUB, with commas between", h("input", { name: "groups", value: (account.groups ?? []).join(",") })),
      h("label", {}, h("input", { name: "admin", type: "checkbox", checked: account.admin }), " administrator")), { yes: isNew ? "Add" : "Change" });
    if (fields && await perform("account-put", { name: fields.name, secret: fields.secret, admin: fields.admin === "on", topics: fields.topics, groups: fields.groups }, `${fields.name} is saved on every broker`)) load();
  }
  async function remove(account) {
    const sure = await ask(`Remove ${account.name}`, h("p", {}, "Programs that use it are refused from now on."), { yes: "Remove account", danger: true, name: account.name });
    if (sure && await perform("account-delete", { name: account.name, confirm: sure.confirm }, `${account.name} is removed`)) load();
  }
  async function load() {
    try {
      const seen = await get("/api/accounts");
      replace(box, seen.rows.map((s) => h("section", {}, h("h2", {}, s.broker, " ", h("span.quiet.mono", {}, s.address)), s.fault ? faultBox(new Error(s.fault)) : !s.enabled
        ? empty("Access control is off", "Everybody who reaches this broker may do everything. With accounts and TLS, made at the first start: ", h("code", {}, "contrail up --secure"), " or set aclEnable=true in broker.conf.")
        : [table([
          { label: "Account", class: "name", cell: (a) => a.name }, { label: "Role", cell: (a) => (a.admin ? chip("administrator", "accent") : chip("user")) },
          { label: "Topics", class: "name p2", cell: (a) => a.topics.join(", ") || a.topicDefault || "–" }, { label: "Groups", class: "name p2", cell: (a) => a.groups.join(", ") || a.groupDefault || "–" },
          { label: "", cell: (a) => [button("Change", () => edit(a), { kind: "link", write: true }), " ", button("Remove", () => remove(a), { kind: "link", write: true })] }], s.accounts, { label: "Accounts" }),
          s.white?.length ? h("p.quiet", {}, `Addresses that need no account: ${s.white.join(", ")}`) : null])));
    } catch (error) { replace(box, faultBox(error, load)); }
  }
  replace(main, head("Accounts", [h("span", {}, "Who may do what; secrets are never shown")], [button("Add account", () => edit(), { kind: "primary", write: true })]), box);
  await load();
}
