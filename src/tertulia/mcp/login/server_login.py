"""The login to one server, with the SDK's OAuth client: the token of each request, its renewal, and the whole login
where a person is there.

The SDK's client is an authentication of single requests, and holds a lock until the answer to one begins. Requests of
many conversations share a connection here, so they never go through it: it gets a stand-in, answered with the refusal
that a request had, and its own requests are sent by us. Imports the SDK, so it is itself imported late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.utils import extract_scope_from_www_auth, union_scopes
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from msgspec.structs import replace
from pydantic import ValidationError

from tertulia.errors import McpError, StorageError
from tertulia.mcp.config.definition import OAuthOptions
from tertulia.mcp.config.launch import Launch
from tertulia.mcp.login.addresses import address_problem
from tertulia.mcp.login.browser import BrowserLogin
from tertulia.mcp.login.error_text import LOGIN_ERRORS, LoginRefusals, explain_login_error
from tertulia.mcp.login.login_store import LoginStore, StoredLogin
from tertulia.mcp.server_connection import Spawn

if TYPE_CHECKING:
    from pydantic import BaseModel

Send = Callable[[httpx2.Request], Awaitable[httpx2.Response]]
_EXCHANGE_S = 30.0
_NO_REDIRECT = "http://127.0.0.1/callback"
"""Only registered where a person logs in, and then with the address of their listener."""
_PAST = 1.0
_FORBIDDEN = 403


class ServerLogin:
    """One server's login. Several requests at once cause one renewal, and one login."""

    def __init__(
        self,
        server: str,
        launch: Launch,
        *,
        store: LoginStore | None,
        browser: BrowserLogin | None,
        send: Send,
        spawn: Spawn,
        learned: Callable[[str], object],
    ) -> None:
        """
        Args:
            server: Its name in the settings.
            launch: Its address, and what the settings say about its login.
            store: Where logins are kept; None: nowhere.
            browser: In which a person can log in now. Then of a login that is kept only who we are there counts.
            send: Sends a request of the login, and returns a response whose body has been read.
            spawn: Starts a task that outlives the request that caused it.
            learned: Called with every token and secret, so that none is shown.
        """
        self._server, self._url, self._store, self._browser = server, launch.url, store, browser
        self._send_request, self._spawn, self._learned = send, spawn, learned
        self._refusals = LoginRefusals()
        self._client = _Client(launch, self, browser)
        self._loaded = False
        self._ended: str | None = None
        """The last access token that the server refused, and that could not be renewed."""
        self._failure: McpError | None = None
        """Why the person's login came to nothing."""
        self._job: asyncio.Task[McpError | None] | None = None

    @property
    def asks_person(self) -> bool:
        """Whether a person is there to log in."""
        return self._browser is not None

    async def token(self) -> str | None:
        """An access token to send; None where there is no login. McpError where one cannot be read."""
        if not self._loaded:
            await self._run(self._load)
        if self._client.context.current_tokens is not None and not self._client.context.is_token_valid():
            await self._run(self._renew)
        return self._current()

    async def after_refusal(self, refusal: httpx2.Response, sent: str | None) -> str:
        """A token in place of the one that was refused with 401 or 403. McpError says what the person can do."""
        lacks_scope = refusal.status_code == _FORBIDDEN
        if not lacks_scope:
            if self._current() in (None, sent):
                await self._run(self._renew)
            if (token := self._current()) not in (None, sent):
                return token
        if self._browser is None:
            raise await self._login_needed(refusal)
        if self._failure is None:
            try:
                await self._run(lambda: self._drive(refusal))
            except McpError as error:
                # The SDK tries again with the older protocol: the person is asked once.
                self._failure = error
        if self._failure is not None:
            raise self._failure
        if (token := self._current()) is None:
            raise McpError("the login gave no token")
        return token

    def _current(self) -> str | None:
        tokens = self._client.context.current_tokens
        return None if tokens is None else tokens.access_token

    # ---- one at a time

    async def _run(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do this, or wait for what is being done already; McpError of what was done."""
        if self._job is None or self._job.done():
            self._job = self._spawn(self._outcome(act), f"login to MCP server {self._server}")
        job = self._job
        await asyncio.wait({job})
        error = McpError("the connection is closed") if job.cancelled() else job.result()
        if error is not None:
            raise error

    async def _outcome(self, act: Callable[[], Awaitable[None]]) -> McpError | None:
        try:
            await act()
        except McpError as error:
            return error
        except LOGIN_ERRORS as error:
            return McpError(explain_login_error(error, self._server, self._refusals))
        return None

    # ---- what is kept

    async def _load(self) -> None:
        login = await self._stored()
        if login is not None:
            self._adopt(login)
            if self._browser is not None:
                self._client.wanted_scopes = login.wanted_scopes
                self._client.context.clear_tokens()
        self._loaded = True

    async def _stored(self) -> StoredLogin | None:
        if self._store is None:
            return None
        try:
            return await asyncio.to_thread(self._store.read, self._server, self._url)
        except StorageError as error:
            if self._browser is not None:
                # The login that is made now takes its place.
                return None
            raise McpError(error.message) from error

    def _check_own_address(self) -> None:
        if (problem := address_problem(self._url, self._url)) is not None:
            raise McpError(f"no login is used for it: its address {problem}")

    def _adopt(self, login: StoredLogin) -> None:
        self._check_own_address()
        for secret in login.secrets():
            self._learned(secret)
        self._client.restore(login)

    async def keep(self) -> None:
        """Keep the login as it is now; called by the SDK's client after each token response."""
        earlier = await self._stored() if self._browser is None else None
        wanted_scopes = "" if earlier is None else earlier.wanted_scopes
        login = self._client.as_stored(self._url, wanted_scopes=wanted_scopes)
        for secret in login.secrets():
            self._learned(secret)
        # A session keeps what it renewed in place of a login, never where the user has logged out meanwhile.
        if self._store is not None and (self._browser is not None or earlier is not None):
            await asyncio.to_thread(self._store.keep, self._server, login)

    # ---- the three acts

    async def _renew(self) -> None:
        """Get another access token without a person; where that fails there is none afterwards."""
        context = self._client.context
        stale = self._current()
        stored = await self._stored()
        # Another process may have renewed it, and the renewal token that we hold be used up; or a person logged in.
        if self._adopt_other(stored, stale) and context.is_token_valid():
            return
        # Where nothing is kept any more the user has logged out.
        may_renew = self._browser is not None or stored is not None
        if may_renew and context.can_refresh_token():
            tokens = context.current_tokens
            # The SDK renews what has expired; the server may have refused it before its time.
            context.token_expiry_time = _PAST
            await self._drive(None)
            if self._current() is not None:
                return
            if self._refusals.may_pass:
                context.current_tokens, context.token_expiry_time = tokens, _PAST
                raise McpError(f"its login cannot be renewed now{self._refusals}; the next call tries again")
            if self._adopt_other(await self._stored(), stale):
                return
        context.clear_tokens()
        self._ended = stale or self._ended

    def _adopt_other(self, stored: StoredLogin | None, stale: str | None) -> bool:
        """Go on with the login that is kept, where it is another one."""
        if self._browser is not None or stored is None:
            return False
        if stored.tokens.get("access_token") in (stale, self._ended):
            return False
        self._adopt(stored)
        return True

    async def _drive(self, refusal: httpx2.Response | None) -> None:
        """Have the SDK's client do its part for a stand-in; None: only until the stand-in would be sent."""
        self._check_own_address()
        self._refusals.clear()
        headers = {} if refusal is None else _protocol_version(refusal)
        stand_in = httpx2.Request("POST", self._url, headers=headers)
        flow = self._client.async_auth_flow(stand_in)
        try:
            request = await self._until(flow, stand_in, await anext(flow))
            if refusal is not None:
                answer = httpx2.Response(refusal.status_code, headers=refusal.headers, request=request)
                await self._until(flow, stand_in, await flow.asend(answer))
        finally:
            await flow.aclose()

    async def _until(self, flow: Any, stand_in: httpx2.Request, request: httpx2.Request) -> httpx2.Request:
        while request is not stand_in:
            request = await flow.asend(await self._send(request))
        return request

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        if (problem := address_problem(str(request.url), self._url)) is not None:
            raise McpError(f"its login names an address that is not used: {problem}")
        try:
            async with asyncio.timeout(_EXCHANGE_S):
                response = await self._send_request(request)
        except (TimeoutError, httpx2.TransportError):
            raise McpError(f"its login cannot be reached at {request.url.host}") from None
        self._refusals.note(response)
        return response

    async def _login_needed(self, refusal: httpx2.Response) -> McpError:
        again = f"`tertulia mcp login {self._server}`"
        if refusal.status_code != _FORBIDDEN:
            if self._ended is not None:
                return McpError(f"its login has ended: {again}")
            return McpError(f"it wants a login: {again}, or a token that you name with bearer_token_env_var")
        scopes = " ".join((extract_scope_from_www_auth(refusal) or "").split()[:20])[:200]
        stored = await self._stored()
        if stored is not None and self._store is not None and scopes:
            await asyncio.to_thread(self._store.keep, self._server, replace(stored, wanted_scopes=scopes))
        return McpError(f"the login does not reach so far{scopes and f', it lacks {scopes}'}: {again} asks for it")


def _protocol_version(refusal: httpx2.Response) -> dict[str, str]:
    name = "mcp-protocol-version"
    version = refusal.request.headers.get(name)
    return {} if version is None else {name: version}


class _Client(OAuthClientProvider):
    """The SDK's client, which begins with what is kept. It is its own storage."""

    def __init__(self, launch: Launch, login: ServerLogin, browser: BrowserLogin | None) -> None:
        options = launch.oauth or OAuthOptions()
        self._login, self._browser, self._options = login, browser, options
        self.wanted_scopes = ""
        redirect = _NO_REDIRECT if browser is None else browser.redirect_uri
        super().__init__(
            launch.url,
            OAuthClientMetadata.model_validate(
                {"client_name": "Tertulia", "redirect_uris": [redirect], "application_type": "native"}
            ),
            self,
            None if browser is None else self._visit,
            None if browser is None else self._answer,
            options.client_metadata_url,
        )
        if options.client_id is not None:
            secret = launch.client_secret or None
            self.context.client_info = OAuthClientInformationFull.model_validate(
                {
                    "client_id": options.client_id,
                    "client_secret": secret,
                    "redirect_uris": [redirect],
                    "token_endpoint_auth_method": options.client_secret_method if secret else "none",
                }
            )

    # ---- what is kept

    def restore(self, login: StoredLogin) -> None:
        """Begin with this. A part that the SDK does not take is left out."""
        context = self.context
        context.current_tokens = _parsed(OAuthToken, login.tokens)
        context.token_expiry_time = login.expires_at
        context.oauth_metadata = _parsed(OAuthMetadata, login.authorization_server)
        context.protected_resource_metadata = _parsed(ProtectedResourceMetadata, login.resource)
        if (resource := context.protected_resource_metadata) is not None:
            context.auth_server_url = str(resource.authorization_servers[0])
        client = _parsed(OAuthClientInformationFull, login.client)
        # A client that the settings name counts before a registered one. So does a listener at another port than the
        # one that was registered: not every authorization server takes any port.
        if self._options.client_id is None and client is not None and self._may_come_back_to(client):
            context.client_info = client

    def as_stored(self, url: str, *, wanted_scopes: str = "") -> StoredLogin:
        """The login as it is now."""
        context = self.context
        tokens, client = context.current_tokens, context.client_info
        return StoredLogin(
            url=url,
            tokens={} if tokens is None else _json(tokens),
            expires_at=context.token_expiry_time,
            client={} if client is None else _json(client),
            authorization_server=context.oauth_metadata and _json(context.oauth_metadata),
            resource=context.protected_resource_metadata and _json(context.protected_resource_metadata),
            wanted_scopes=wanted_scopes,
        )

    def _may_come_back_to(self, client: OAuthClientInformationFull) -> bool:
        if self._browser is None or not client.redirect_uris:
            return True
        return self._browser.redirect_uri in {str(address) for address in client.redirect_uris}

    # ---- called by the SDK

    async def _initialize(self) -> None:
        # It would load the tokens, and forget when they end and where they are renewed.
        self._initialized = True

    async def _perform_authorization(self) -> httpx2.Request:
        metadata = self.context.client_metadata
        if self._options.scopes:
            metadata.scope = " ".join(self._options.scopes)
        metadata.scope = union_scopes(metadata.scope, self.wanted_scopes)
        return await super()._perform_authorization()

    async def _visit(self, address: str) -> None:
        assert self._browser is not None
        if (problem := address_problem(address, self.context.server_url)) is not None:
            raise McpError(f"its login names an address that is not used: {problem}")
        await self._browser.visit(address)

    async def _answer(self) -> AuthorizationCodeResult:
        assert self._browser is not None
        answer = await self._browser.answer()
        return AuthorizationCodeResult(code=answer.code, state=answer.state, iss=answer.issuer)

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens that it has."""
        return self.context.current_tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep them, with all that is needed to renew them."""
        await self._login.keep()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """What we are called there."""
        return self.context.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Nothing is kept before there is a token: a login that fails leaves nothing behind."""


def _parsed(model: type[Any], data: dict[str, Any] | None) -> Any:
    if not data:
        return None
    try:
        return model.model_validate(data)
    except ValidationError:
        return None


def _json(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", exclude_none=True)
