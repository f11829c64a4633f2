// A user's account at a client that opens the user's browser, as BROWSER names it, and waits at a
// loopback address until the browser comes back.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { Account } from './account.mjs';

export class Desktop extends Account {
  // open returns an account. document is the URL of the client's metadata document, if it has one.
  static async open(document) {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Desktop(server, document);
  }

  constructor(server, document) {
    super();
    this.server = server;
    this.clientMetadataUrl = document;
    this.redirectUrl = `http://127.0.0.1:${server.address().port}/callback`;
    this.clientMetadata = { ...this.clientMetadata, redirect_uris: [this.redirectUrl] };
  }

  redirectToAuthorization = (url) => {
    this.back = once(this.server, 'request');
    spawn(process.env.BROWSER, [String(url)], { stdio: 'ignore' });
  };

  // signIn waits for the browser and returns the parameters of the redirect back to the client.
  async signIn() {
    const [request, response] = await this.back;
    response.end('You can close this page.');
    const { searchParams } = new URL(request.url, this.redirectUrl);
    if (searchParams.get('state') !== this.savedState) throw new Error(`foreign state in ${request.url}`);
    return searchParams;
  }

  close() {
    this.server.close();
    this.server.closeAllConnections();
  }
}
