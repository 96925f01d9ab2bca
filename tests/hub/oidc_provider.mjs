// A real OpenID Connect provider for tests: node oidc_provider.mjs FOLDER PORT CALLBACK
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, port, callback] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const { Provider } = await import(pathToFileURL(require.resolve("oidc-provider")).href);

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: "hub",
    client_secret: "hub-secret",
    redirect_uris: [callback],
    grant_types: ["authorization_code", "urn:ietf:params:oauth:grant-type:device_code"],
    response_types: ["code"],
    token_endpoint_auth_method: "client_secret_post",
  }],
  conformIdTokenClaims: false,
  claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"], profile: [] },
  scopes: ["openid", "profile", "email", "groups"],
  features: { devInteractions: { enabled: true }, deviceFlow: { enabled: true } },
  findAccount: async (_context, id) => ({
    accountId: id,
    claims: async () => ({
      sub: id,
      email: `${id}@example.org`,
      email_verified: id !== "mallory",
      groups: ["Developers", "Everyone"],
    }),
  }),
});
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
