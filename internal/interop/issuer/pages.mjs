// The pages of the authorization servers, one after the other: who are you, and may this client
// act for you?
import { text } from 'node:stream/consumers';

export function servePages(provider) {
  provider.use(async (ctx, next) => {
    if (!ctx.path.startsWith('/interaction/')) return next();
    const { prompt, params, session, grantId } = await provider.interactionDetails(ctx.req, ctx.res);
    if (ctx.method === 'GET') {
      const field = prompt.name === 'login' ? 'user' : 'yes';
      const action = new URL(ctx.req.originalUrl ?? ctx.req.url, provider.issuer).pathname;
      ctx.type = 'html';
      ctx.body = `<form method="post" action="${action}"><input name="${field}"><button>Go on</button></form>`;
      return;
    }
    const form = new URLSearchParams(await text(ctx.req));
    if (prompt.name === 'login') {
      ctx.respond = false;
      return provider.interactionFinished(ctx.req, ctx.res, { login: { accountId: form.get('user') } });
    }
    const grant =
      (grantId && (await provider.Grant.find(grantId))) ||
      new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope((prompt.details.missingOIDCScope ?? []).join(' '));
    for (const [resource, scopes] of Object.entries(prompt.details.missingResourceScopes ?? {})) {
      grant.addResourceScope(resource, scopes.join(' '));
    }
    ctx.respond = false;
    return provider.interactionFinished(ctx.req, ctx.res, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
  });
}
