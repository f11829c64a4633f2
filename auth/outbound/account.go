package outbound

// Account is what says as whom the gateway comes to an upstream: configurations with the
// same are good for the same sessions there. It holds secrets.
func (c Config) Account() []string {
	resource := ""
	if c.Resource != nil {
		resource = "=" + *c.Resource // "" is not the default
	}
	return append([]string{c.Type, c.Header, string(c.Token), c.TokenURL, c.Issuer, c.AuthorizationServer, c.ClientID, c.Grant.TokenURL, c.Grant.ClientID, resource, c.Audience}, c.Scopes...)
}
