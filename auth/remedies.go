package auth

import "strings"

// Step is one question about a token.
type Step string

// The steps, in the order in which a token is looked at. An API key has fewer of them.
const (
	StepForm      Step = "form"            // is it a token at all?
	StepIssuer    Step = "issuer"          // is it of an accepted issuer?
	StepType      Step = "type"            // is it an access token, with an accepted algorithm?
	StepAudience  Step = "audience"        // is it for this gateway?
	StepTimes     Step = "times"           // is it good now?
	StepUser      Step = "user"            // does it say who its user is?
	StepClaims    Step = "required claims" // does it have what is required of it?
	StepClient    Step = "client"          // is its client accepted?
	StepBinding   Step = "binding"         // can the sender's right to it be checked?
	StepGroups    Step = "groups"          // can its groups and scopes be read?
	StepSignature Step = "signature"       // has its issuer signed it?
	StepScopes    Step = "scopes"          // does it have the required scopes?
	StepRevoked   Step = "revocation"      // was it ended before its time? Of the gateway's own tokens alone
	StepEndpoint  Step = "endpoint"        // is it for this endpoint?
	StepProof     Step = "proof"           // does its client prove that it has the key of a bound one?
)

var (
	tokenSteps = []Step{StepForm, StepIssuer, StepType, StepAudience, StepTimes, StepUser, StepClaims, StepClient,
		StepBinding, StepGroups, StepSignature, StepScopes, StepEndpoint}
	opaqueSteps = []Step{StepForm, StepIssuer, StepType, StepAudience, StepTimes, StepUser, StepClaims, StepClient,
		StepBinding, StepGroups, StepScopes, StepEndpoint}
	ownSteps = []Step{StepForm, StepType, StepSignature, StepIssuer, StepAudience, StepTimes, StepUser, StepClaims,
		StepClient, StepBinding, StepGroups, StepRevoked, StepScopes, StepEndpoint}
	keySteps = []Step{StepForm, StepIssuer, StepTimes, StepScopes, StepEndpoint}
)

// remedy says which step a reason belongs to, and what to do.
type remedy struct {
	step Step
	next string
}

const (
	getAnother  = "Sign in again and use the new token."
	wholeToken  = "Copy the whole token, and nothing else: three parts in base64url with dots between them."
	askIssuer   = "Look at the token with the issuer's operators: it does not make tokens as others do."
	fixAudience = "Have the issuer make tokens for this gateway (the parameter resource, or its setting for the audience), or add the token's aud to audiences of the issuer in auth.issuers."
	anotherKey  = "Make another key with gatehouse key new."
	fewerGroups = "Have the issuer put fewer groups into the token: only those that are assigned to the client."
	newProof    = "Correct the client: each request needs a proof of its own, by the key that the token is bound to."
	setClocks   = "Set the clocks of this machine and of the issuer; auth.leeway tolerates some difference."
)

// remedies has the remedy for each reason. A test compares it with the code that refuses.
var remedies = map[string]remedy{
	"the token is too long": {StepForm, wholeToken},
	"the token is not a JWT": {StepForm,
		"If the issuer makes opaque tokens, configure introspection for it; else send the access token itself."},
	"the token is not a compact JWT":                          {StepForm, wholeToken},
	"the token's header is not base64url":                     {StepForm, wholeToken},
	"the token's signature is not base64url":                  {StepForm, wholeToken},
	"the token's claims are not base64url":                    {StepForm, wholeToken},
	"the token's header cannot be read":                       {StepForm, askIssuer},
	"the token's claims cannot be read":                       {StepForm, askIssuer},
	"the token's header has a parameter that is not accepted": {StepForm, askIssuer},

	"the token is from an issuer that is not accepted": {StepIssuer,
		"Compare iss with auth.issuers[].url, letter by letter: a slash at the end of a path matters."},
	"the token's user has signed in where nobody signs in any more": {StepIssuer,
		"auth.server.provider was changed. " + getAnother},
	"the token is not active": {StepIssuer, "The issuer says that it is revoked or has ended. " + getAnother},
	"the token is of the gateway's own authorization server, which does not run here": {StepIssuer,
		"Only the gateway that runs has the keys of auth.server: ask it with gatehouse auth test --running, or on the page Sign-ins of its console."},

	"the token's algorithm is not accepted": {StepType,
		"Add the algorithm to algorithms of the issuer, if it is one of those that the gateway knows, or change it at the issuer."},
	"the token is not an access token": {StepType,
		"Send the access token. If it is one, add its typ to require_typ of the issuer."},
	"the token looks like an ID token: send the access token": {StepType,
		"Send the access token, not the ID token. For tokens of programs (GitHub Actions, Kubernetes) set workloads: true at the issuer."},
	"the token is not a bearer token": {StepType, "Have the issuer make bearer tokens for this client."},

	"the token does not say whom it is for": {StepAudience, fixAudience},
	"the token is for another audience":     {StepAudience, fixAudience},
	"the token is for others too": {StepAudience,
		"Have the issuer make tokens for this gateway alone, or take require_sole_audience out."},

	"the token does not say when it expires": {StepTimes, askIssuer},
	"the token has expired":                  {StepTimes, getAnother + " If it is new: " + setClocks},
	"the token is not good yet":              {StepTimes, setClocks},
	"the token was issued in the future":     {StepTimes, setClocks},
	"the token is good for too long": {StepTimes,
		"Have the issuer make tokens for a shorter time, or raise max_token_lifetime."},

	"the token does not say who its user is": {StepUser,
		"Have the issuer put the claim into the token, or name another one in claims.user."},
	"the token does not say that its user's email address was verified": {StepUser,
		"Name another claim in claims.user, such as sub: addresses change hands."},
	"the token lacks a claim that is required of it": {StepClaims,
		"Compare the token with require_claims of the issuer."},
	"the token's client id cannot be read": {StepClient,
		askIssuer},
	"the token is of a client that is not accepted": {StepClient,
		"Add the client to allowed_clients of the issuer, or use one that is there."},
	"the token does not say which client it is of": {StepClient,
		"Have the issuer put client_id or azp into the token, or take allowed_clients out."},
	"the token is bound to a key of its client, which this gateway cannot check": {StepBinding,
		"Have the client ask for a bearer token, or set auth.dpop: accepted."},
	"the token is bound to a certificate of its client (mutual TLS), which this gateway cannot check": {StepBinding,
		"Have the client ask for a bearer token, or bind it by DPoP."},
	"the token is bound to a key of its client: send it as Authorization: DPoP, with a proof": {StepProof,
		"Nothing else is wrong with the token: the client that got it has to send it, with a proof of its key."},
	"the token is bound to no key of its client: send it as Authorization: Bearer": {StepProof,
		"Have the client send it as Authorization: Bearer, or get a token with DPoP."},
	"the token is bound to no key of its client, as this gateway demands (DPoP)": {StepProof,
		"Use a client with DPoP, or set auth.dpop: accepted."},
	"there has to be one header DPoP":              {StepProof, newProof},
	"the proof in the header DPoP is not one":      {StepProof, newProof},
	"the proof is of another key than the token's": {StepProof, newProof},
	"the proof is for another method":              {StepProof, newProof},
	"the proof is for another URL": {StepProof,
		newProof + " Its htu is public_url, or the URL of the view, as clients write it."},
	"the proof is for another token": {StepProof, newProof},
	"the proof was made in the future": {StepProof,
		"Set the clocks of this machine and of the client."},
	"the proof is too old: each request needs a new one":       {StepProof, newProof + " If it does, set the clocks."},
	"the proof was used already: each request needs a new one": {StepProof, newProof},
	"proofs cannot be checked now: try again": {StepProof,
		"Make Redis reachable: it has the proofs that were used."},
	"the token's scopes cannot be read": {StepGroups, askIssuer},
	"the token's groups cannot be read": {StepGroups,
		"Compare claims.groups of the issuer with the token: the claim has to be a text or a list of texts."},

	"the token has been revoked": {StepRevoked,
		getAnother},
	"access tokens cannot be verified now: try again": {StepSignature,
		"Make Redis reachable: it has the keys of auth.server, and what was revoked."},
	"the token's signature cannot be verified": {StepSignature,
		"Copy the whole token. If it is whole, another issuer has signed it, or its key was withdrawn: " + getAnother},
	"the key of this access token is not known yet: try again": {StepSignature,
		"Try again in a few seconds."},
	"access tokens cannot be verified now, since their issuer does not answer: try again": {StepSignature,
		"Make the issuer reachable from this machine: gatehouse check --connect tries it."},
	"too many tokens from this address were no good: try again": {StepIssuer,
		"Wait a minute."},
	"the token leaves out the groups, since there are too many: have the issuer put fewer into it": {StepGroups,
		fewerGroups},
	"the token has more than ": {StepGroups, fewerGroups},
	"the token lacks a scope that every call needs: ": {StepScopes,
		"Have the client ask for the scope, and the issuer grant it; or take it out of auth.required_scopes. A key gets scopes by gatehouse key new --scopes."},

	"the key is not whole: it was cut, or has a typing error": {StepForm, "Copy the whole key."},
	"the key is not one of this gateway": {StepIssuer,
		"Use another key, or have the entry of this one put back into the file of keys."},
	"the key was revoked":            {StepIssuer, anotherKey},
	"the key has expired":            {StepTimes, anotherKey},
	"the key is for other endpoints": {StepEndpoint, "Use the endpoint of one of the key's views, or a key for this one."},

	"there is one space between Bearer and the token, and none after it": {StepForm, wholeToken},
}

// remedyOf finds the remedy for a reason.
func remedyOf(reason string) (remedy, bool) {
	if r, ok := remedies[reason]; ok {
		return r, true
	}
	for begin, r := range remedies {
		if strings.HasSuffix(begin, " ") && strings.HasPrefix(reason, begin) {
			return r, true
		}
	}
	return remedy{}, false
}

// Remedy says what to do about a token that was refused for a reason, "" if nothing is known.
func Remedy(reason string) string {
	r, _ := remedyOf(reason)
	return r.next
}
