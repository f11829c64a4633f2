// A user's account at a client: what the SDKs' OAuth clients ask an application to
// keep, and a browser without a screen for the pages of the authorization server.
const redirectUrl = 'http://127.0.0.1:9/callback'; // nobody listens: the browser stops there

export class Account {
  trace = []; // every request of the SDK, see fetch
  redirectUrl = redirectUrl;
  clientMetadata = {
    client_name: 'interop',
    redirect_uris: [redirectUrl],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    application_type: 'native',
  };

  constructor(user) {
    this.user = user;
  }

  // What the SDK saves and loads. It never sees the user.
  state = () => (this.savedState = crypto.randomUUID());
  clientInformation = () => this.client;
  saveClientInformation = (client) => void (this.client = client);
  tokens = () => this.saved;
  saveTokens = (tokens) => void (this.saved = tokens);
  codeVerifier = () => this.verifier;
  saveCodeVerifier = (verifier) => void (this.verifier = verifier);
  discoveryState = () => this.discovery;
  saveDiscoveryState = (state) => void (this.discovery = state);
  redirectToAuthorization = (url) => void (this.authorization = url);

  // fetch is handed to the SDK and writes down what goes out and comes back.
  fetch = async (url, init) => {
    const response = await fetch(url, init);
    const headers = new Headers(init?.headers);
    const form = init?.body instanceof URLSearchParams ? init.body : new URLSearchParams();
    this.trace.push({
      method: init?.method ?? 'GET',
      url: String(url),
      status: response.status,
      challenge: response.headers.get('WWW-Authenticate') ?? '',
      session: headers.get('Mcp-Session-Id') ?? '',
      authorized: headers.has('Authorization'),
      grant: form.get('grant_type') ?? '',
      resource: form.get('resource') ?? '',
    });
    return response;
  };

  // signIn does what the user does in the browser and returns the parameters of the
  // redirect back to the client.
  async signIn() {
    const cookies = new Map();
    let request = [this.authorization, {}];
    for (let hops = 0; hops < 20; hops++) {
      const [url, init] = request;
      const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const response = await fetch(url, { ...init, redirect: 'manual', headers: { cookie } });
      for (const line of response.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
        cookies.set(name, value);
      }
      const location = response.headers.get('location');
      if (location?.startsWith(redirectUrl)) {
        const { searchParams } = new URL(location);
        if (searchParams.get('state') !== this.savedState) throw new Error(`foreign state in ${location}`);
        return searchParams;
      }
      if (location) {
        request = [new URL(location, url), {}];
        continue;
      }
      const page = await response.text();
      const [, action, field] = /action="([^"]+)"><input name="([^"]+)"/.exec(page) ?? [];
      if (!action) throw new Error(`status ${response.status} without a form: ${page}`);
      request = [new URL(action, url), { method: 'POST', body: new URLSearchParams({ [field]: this.user }) }];
    }
    throw new Error('the authorization server redirects for ever');
  }

  // age takes an access token as it would have been issued that many seconds ago.
  async age(seconds) {
    const response = await fetch(this.discovery.authorizationServerMetadata.token_endpoint, {
      method: 'POST',
      headers: { 'X-Age': String(seconds) },
      body: new URLSearchParams({
        grant_type: 'refresh_token',
        client_id: this.client.client_id,
        refresh_token: this.saved.refresh_token,
        resource: this.discovery.resourceMetadata.resource,
      }),
    });
    if (!response.ok) throw new Error(`aging: status ${response.status}: ${await response.text()}`);
    this.saved = { ...this.saved, ...(await response.json()) };
    return {};
  }
}
