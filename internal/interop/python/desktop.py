"""How a client on the Python SDK, mcp 1.x or 2.x, has its user sign in in a browser."""

import webbrowser
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from anyio import to_thread
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import OAuthClientMetadata

try:
    from mcp.shared.auth import AuthorizationCodeResult
except ImportError:  # mcp 1.x takes a tuple

    def AuthorizationCodeResult(code: str, state: str, iss: str) -> tuple[str, str]:
        return code, state


class Memory:
    """What the SDK keeps."""

    tokens: Any = None
    client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client: Any) -> None:
        self.client = client


class Callback(BaseHTTPRequestHandler):
    """The page at the redirect URI."""

    def do_GET(self) -> None:
        self.server.answer = dict(parse_qsl(urlsplit(self.path).query))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"You can close this page.")

    def log_message(self, *args: Any) -> None:
        pass


def sign_in(url: str, document: str | None = None) -> OAuthClientProvider:
    server = HTTPServer(("127.0.0.1", 0), Callback)
    metadata = OAuthClientMetadata(
        client_name="interop",
        redirect_uris=[f"http://127.0.0.1:{server.server_port}/callback"],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )

    async def open_browser(at: str) -> None:
        await to_thread.run_sync(webbrowser.open, at)

    async def come_back() -> Any:
        await to_thread.run_sync(server.handle_request)
        return AuthorizationCodeResult(**server.answer)

    return OAuthClientProvider(url, metadata, Memory(), open_browser, come_back, client_metadata_url=document)
