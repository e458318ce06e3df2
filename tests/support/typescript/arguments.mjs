// Makes calls with an official TypeScript client, and prints their results as JSON.
//
// Usage: node --input-type=module - URL CLIENT < arguments.mjs, in the folder of the installed
// clients. CLIENT is "v1" or "auto", as for client.mjs. The environment variable CALLS has a JSON
// list of calls, each with a name and arguments.

const [url, kind] = process.argv.slice(-2);
const endpoint = new URL(url);
const identity = { name: 'carrel-tests', version: '1.0.0' };

async function connectClient() {
    const isFirst = kind === 'v1';
    const { Client } = await import(
        isFirst ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client'
    );
    const { StreamableHTTPClientTransport } = await import(
        isFirst ? '@modelcontextprotocol/sdk/client/streamableHttp.js' : '@modelcontextprotocol/client'
    );
    const client = new Client(identity, isFirst ? {} : { versionNegotiation: { mode: 'auto' } });
    await client.connect(new StreamableHTTPClientTransport(endpoint));
    return client;
}

const client = await connectClient();
const results = [];
for (const call of JSON.parse(process.env.CALLS)) {
    results.push(await client.callTool(call));
}
await client.close();
console.log(JSON.stringify({ results }));
