// Signs in to Carrel with an official TypeScript client, calls tools, and prints the results as JSON.
//
// Usage: CARREL_KEY=... node --input-type=module - URL CLIENT < sign_in.mjs, in the folder of the
// installed clients. CLIENT is the version of the client, "v2" or "v1". The script also acts for the
// person at the browser, who approves with the access key CARREL_KEY.

const [url, kind] = process.argv.slice(-2);
const endpoint = new URL(url);
const identity = { name: 'carrel-tests', version: '1.0.0' };
const callback = 'http://127.0.0.1:51112/callback';

// Approves on the consent page, and returns the parameters of the redirect to the client.
async function approve(authorizationUrl) {
    const redirect = await fetch(authorizationUrl, { redirect: 'manual' });
    const page = await fetch(new URL(redirect.headers.get('location'), authorizationUrl));
    const fields = { key: process.env.CARREL_KEY, decision: 'allow' };
    for (const [, name, value] of (await page.text()).matchAll(/type="hidden" name="(\w+)" value="([^"]*)"/g))
        fields[name] = value;
    const cookies = page.headers.getSetCookie().map((cookie) => cookie.split(';')[0]).join('; ');
    const body = new URLSearchParams(fields);
    const response = await fetch(new URL('/consent', authorizationUrl), {
        method: 'POST', body, headers: { cookie: cookies }, redirect: 'manual',
    });
    return new URL(response.headers.get('location')).searchParams;
}

// What the client asks for to sign in. It stores tokens and registrations in memory.
class Provider {
    visits = 0;
    get redirectUrl() { return callback; }
    get clientMetadata() {
        return { client_name: 'TypeScript tests', redirect_uris: [callback] };
    }
    clientInformation() { return this.client; }
    saveClientInformation(client) { this.client = client; }
    tokens() { return this.storedTokens; }
    saveTokens(tokens) { this.storedTokens = tokens; }
    state() { return 'a state'; }
    async redirectToAuthorization(address) { this.visits += 1; this.answer = await approve(address); }
    saveCodeVerifier(verifier) { this.verifier = verifier; }
    codeVerifier() { return this.verifier; }
    saveDiscoveryState(state) { this.discovery = state; }
    discoveryState() { return this.discovery; }
}

const v1 = kind === 'v1';
const { Client } = await import(v1 ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client');
const { StreamableHTTPClientTransport } = await import(
    v1 ? '@modelcontextprotocol/sdk/client/streamableHttp.js' : '@modelcontextprotocol/client'
);

const authProvider = new Provider();
const makeTransport = () => new StreamableHTTPClientTransport(endpoint, { authProvider });
const firstTransport = makeTransport();
let refused = false;
try {
    await new Client(identity).connect(firstTransport);
} catch (error) {
    if (!authProvider.answer) throw error;
    refused = true;
}
await firstTransport.finishAuth(v1 ? authProvider.answer.get('code') : authProvider.answer);
const client = new Client(identity);
await client.connect(makeTransport());
const written = await client.callTool({ name: 'write_note', arguments: { text: 'from TypeScript' } });
// The next call is rejected, and the client has to refresh its token.
authProvider.storedTokens = { ...authProvider.storedTokens, access_token: 'expired' };
const read = await client.callTool({ name: 'read_notes', arguments: {} });
await client.close();
const { visits, answer, storedTokens, client: registered } = authProvider;
console.log(JSON.stringify({
    refused, visits, written, read, scope: storedTokens.scope, iss: answer.get('iss'),
    method: registered.token_endpoint_auth_method ?? null,
}));
