// provider.mjs MANNER ADDRESS RESOURCE: an authorization server in the manner of a product, as
// docs/identity-providers.md has it: oidc-provider at http://ADDRESS with a path. It knows the user
// ada, and one client, the gateway at the host of RESOURCE. At Entra nobody can register, at Okta
// administrators can, at Keycloak everybody.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { Provider, errors } from 'oidc-provider';
import { servePages } from './pages.mjs';

const [manner, address, resource] = process.argv.slice(2);
const groups = ['engineering'];

// path is that of the issuer, scope the one of the gateway. refuses says that a parameter resource is
// an error; else it changes nothing. shape makes an access token what it is there.
const product = {
  entra: {
    path: '/11111111-2222-3333-4444-555555555555/v2.0',
    scope: `${resource}/access`,
    audience: '66666666-7777-8888-9999-000000000000',
    refuses: true,
    shape: (header, { client_id, scope, ...payload }) => {
      header.typ = 'JWT';
      return { ...payload, azp: client_id, scp: 'access', roles: groups, oid: 'the-object-id-of-ada', ver: '2.0' };
    },
  },
  okta: {
    path: '/oauth2/aus1a2b3c4d5e6f7g8h9',
    scope: 'mcp',
    audience: resource,
    registration: { enabled: true, initialAccessToken: 'of-an-administrator' },
    shape: (header, { client_id, scope, sub, ...payload }) => {
      header.typ = 'application/okta-internal-at+jwt';
      return { ...payload, sub: `${sub}@example.com`, uid: `00u-${sub}`, cid: client_id, scp: scope.split(' '), groups, ver: 1 };
    },
  },
  keycloak: {
    path: '/realms/acme',
    scope: 'mcp',
    audience: resource,
    registration: { enabled: true },
    shape: (header, { client_id, ...payload }) => {
      header.typ = 'JWT';
      return { ...payload, typ: 'Bearer', azp: client_id, groups, preferred_username: payload.sub };
    },
  },
}[manner];

// What a token is for where a request does not say it, or where that is not read.
const api = 'api://gateway';

const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' });

const provider = new Provider(`http://${address}${product.path}`, {
  jwks: { keys: [{ ...key, alg: 'ES256', use: 'sig', kid: 'test' }] },
  cookies: { keys: [randomBytes(32)] },
  clients: [
    {
      client_id: 'gatehouse',
      client_secret: 'the-secret-of-the-gateway',
      grant_types: ['authorization_code', 'refresh_token'],
      redirect_uris: [new URL('/oauth/callback', resource).href],
    },
  ],
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
  enabledJWA: { idTokenSigningAlgValues: ['ES256'] },
  scopes: ['openid', 'offline_access'],
  pkce: { required: () => true },
  interactions: { url: (ctx, { uid }) => `${product.path}/interaction/${uid}` },
  features: {
    devInteractions: { enabled: false },
    userinfo: { enabled: false },
    registration: product.registration ?? { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: (ctx, client, oneOf) => oneOf ?? api,
      getResourceServerInfo: (ctx, indicator) => {
        if (indicator !== api && product.refuses) throw new errors.InvalidTarget('AADSTS9010010: the resource does not match the scopes');
        return { scope: product.scope, audience: product.audience, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } };
      },
    },
  },
  findAccount: (ctx, id) => id === 'ada' && { accountId: id, claims: () => ({ sub: id }) },
  issueRefreshToken: () => true,
  ttl: { AccessToken: 600, RefreshToken: 3600, Session: 3600, Grant: 3600, Interaction: 600 },
  formats: {
    customizers: {
      jwt: (ctx, token, parts) => {
        parts.header = {};
        parts.payload = product.shape(parts.header, parts.payload);
      },
    },
  },
});
servePages(provider);

// All of it is below the issuer's path, and nothing at the root of the host.
const serve = provider.callback();
const [host, port] = address.split(':');
createServer((req, res) => {
  if (!req.url.startsWith(`${product.path}/`)) return res.writeHead(404).end();
  req.originalUrl = req.url;
  req.url = req.url.slice(product.path.length);
  return serve(req, res);
}).listen(Number(port), host);
