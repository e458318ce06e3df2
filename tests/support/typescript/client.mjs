// Talk to Carrel as official TypeScript clients do, and print what was understood as JSON.
//
// Usage: node --input-type=module - URL CLIENT < client.mjs, where the clients are installed.
// CLIENT is "2026-07-28" or "auto" (version 2 of the client, at that revision or negotiating) or
// "v1" (version 1, which most applications embed). CAPABILITIES are the client's, as JSON.

const [url, kind] = process.argv.slice(-2);
const endpoint = new URL(url);
const identity = { name: 'carrel-tests', version: '1.0.0' };
const capabilities = JSON.parse(process.env.CAPABILITIES ?? '{}');

async function connected() {
    if (kind === 'v1') {
        const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
        const http = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
        const client = new Client(identity, { capabilities });
        await client.connect(new http.StreamableHTTPClientTransport(endpoint));
        return client;
    }
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const mode = kind === 'auto' ? 'auto' : { pin: kind };
    const client = new Client(identity, { capabilities, versionNegotiation: { mode } });
    await client.connect(new StreamableHTTPClientTransport(endpoint));
    return client;
}

const client = await connected();
const { tools } = await client.listTools();
const search = await client.callTool({ name: 'search_kb', arguments: { query: 'sourdough', limit: 1 } });
const chunk_id = search.structuredContent.results[0].chunk_id;
const chunk = await client.callTool({ name: 'get_chunk', arguments: { chunk_id } });
const failure = await client.callTool({ name: 'get_chunk', arguments: { chunk_id: 'no/id' } });
await client.close();
console.log(JSON.stringify({ tools, search, chunk, failure }));
