// issuer.mjs ADDRESS AUDIENCE...: an authorization server for the test, oidc-provider
// at http://ADDRESS. It knows the users below, registers any client, binds each token
// to one of the audiences (RFC 8707), and signs access tokens as JWTs (RFC 9068).
//
// The client "robot" with the secret "robot" gets tokens for itself. A token request
// with the header X-Age is answered as it would have been that many seconds ago.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { Provider, errors } from 'oidc-provider';
import { servePages } from './pages.mjs';

const [address, ...audiences] = process.argv.slice(2);

const groups = { ada: ['engineering', 'staff'], bob: ['support'], robot: ['robots'] };

const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' });

const provider = new Provider(`http://${address}`, {
  jwks: { keys: [{ ...key, alg: 'ES256', use: 'sig', kid: 'test' }] },
  cookies: { keys: [randomBytes(32)] },
  clients: [
    {
      client_id: 'robot',
      client_secret: 'robot',
      grant_types: ['client_credentials'],
      response_types: [],
      redirect_uris: [],
      id_token_signed_response_alg: 'ES256',
    },
  ],
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
  enabledJWA: { idTokenSigningAlgValues: ['ES256'] },
  scopes: ['openid', 'offline_access', 'mcp'],
  pkce: { required: () => true },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (ctx, resource) => {
        if (!audiences.includes(resource)) throw new errors.InvalidTarget();
        return { scope: 'mcp', audience: resource, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } };
      },
    },
  },
  findAccount: (ctx, id) => groups[id] && { accountId: id, claims: () => ({ sub: id }) },
  extraTokenClaims: (ctx, token) => ({ groups: groups[token.accountId ?? token.clientId] }),
  issueRefreshToken: (ctx, client) => client.grantTypeAllowed('refresh_token'),
  ttl: { AccessToken: 600, ClientCredentials: 600, RefreshToken: 3600, Session: 3600, Grant: 3600, Interaction: 600 },
  formats: {
    customizers: {
      jwt: (ctx, token, { payload }) => {
        const age = Number(ctx.get('X-Age'));
        payload.iat -= age;
        payload.exp -= age;
      },
    },
  },
});

servePages(provider);

const [host, port] = address.split(':');
provider.listen(Number(port), host);
