// Lists and calls tools with an official TypeScript client, and prints the results as JSON.
//
// Usage: node --input-type=module - URL CLIENT < client.mjs, in the folder of the installed clients.
// CLIENT is "v1" for version 1 of the client, which most applications embed. For version 2, it is
// "2026-07-28" for this revision of MCP, or "auto" if the client chooses the revision. The
// environment variable CAPABILITIES has the client's capabilities as JSON.

const [url, kind] = process.argv.slice(-2);
const endpoint = new URL(url);
const identity = { name: 'carrel-tests', version: '1.0.0' };
const capabilities = JSON.parse(process.env.CAPABILITIES ?? '{}');

async function connectClient() {
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

const client = await connectClient();
const { tools } = await client.listTools();
const search = await client.callTool({ name: 'search_kb', arguments: { query: 'sourdough', limit: 1 } });
const chunk_id = search.structuredContent.results[0].chunk_id;
const chunk = await client.callTool({ name: 'get_chunk', arguments: { chunk_id } });
const failure = await client.callTool({ name: 'get_chunk', arguments: { chunk_id: 'no/id' } });
await client.close();
console.log(JSON.stringify({ tools, search, chunk, failure }));
