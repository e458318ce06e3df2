// Pings Carrel before and after pauses, and prints as JSON the seconds of the pauses after which
// Carrel answered.
//
// The pauses block Node's event loop, as compiling schemas does. Node then does not notice that the
// server closed an idle connection, and sends the next request on it.
//
// Usage: node --input-type=module - URL v1 < pauses.mjs, in the folder of the installed clients.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [url] = process.argv.slice(-2);
const client = new Client({ name: 'carrel-tests', version: '1.0.0' });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const answered = [];
for (const seconds of [1.9, 2.1, 3, 10]) {
    await client.ping();
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, seconds * 1000);
    await client.ping();
    answered.push(seconds);
}
await client.close();
console.log(JSON.stringify({ answered }));
