"""Embedding by any endpoint with OpenAI's API: OpenAI itself, a gateway, vLLM or Ollama.

Error messages of the endpoint do not leave this module, since they can quote what was sent. For the
same reason, this module raises its errors after the `except` block, inside which Python would chain
the original error.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from shared.ai.embedding import (
    PROBE,
    embedding_span,
    record_input_tokens,
    require_unicode,
    unit_vector,
)
from shared.ai.retrying import ATTEMPTS_IN_TIME, compute_deadline, run_concurrently
from shared.core.bisection import bisect_batch
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.dates import utc_now
from shared.core.errors import (
    CarrelError,
    Forbidden,
    InvalidInput,
    PaymentRequired,
    PlatformFault,
    RateLimited,
    Unavailable,
)
from shared.core.http import MAX_RETRY_AFTER, parse_retry_after, retry_with_backoff
from shared.core.log import log

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx2
    from pydantic import SecretStr

    from shared.ai.embedding import Embedder, Purpose, Vector

_OUT_OF_QUOTA = ("insufficient_quota", "insufficient_user_quota")
"""OpenAI and One API report an account without quota by these codes, not by status 402."""
_INPUT_STATUSES = frozenset({400, 413, 422})
_KEY_STATUSES = frozenset({401, 403})
_REJECTS_ALL = "it rejects every text: check model, dimension, and whether vectors can be shortened"
_ADVICE = {
    400: _REJECTS_ALL,
    401: "give it a key that it accepts",
    402: "its account has no quota left: top it up",
    403: "give it a key that may use the model",
    404: "check the base URL, which ends before /embeddings, and the name of the model",
    413: _REJECTS_ALL,
    422: _REJECTS_ALL,
}


@dataclass(frozen=True)
class _Key:
    """The key that authorizes a request.

    Attributes:
        secret: The key, or None if the endpoint needs none.
        belongs_to_caller: Whether this is the caller's key, not the deployment's.
    """

    secret: SecretStr | None
    belongs_to_caller: bool

    @property
    def headers(self) -> dict[str, str]:
        """The headers that carry the key, if there is one."""
        return {"authorization": f"Bearer {self.secret.get_secret_value()}"} if self.secret else {}

    @property
    def is_valid_in_header(self) -> bool:
        """Whether a header can carry the key. If not, the HTTP client's error might quote it."""
        text = self.secret.get_secret_value() if self.secret else ""
        return text.isascii() and text.isprintable() and " " not in text


@dataclass(frozen=True, slots=True)
class _EmbeddedTexts:
    """The vectors of the texts of a request.

    Attributes:
        vectors: The vectors, in the order of the texts.
        input_tokens: The tokens that the endpoint counted in all texts together, or 0 if it does
            not say.
    """

    vectors: list[Vector]
    input_tokens: int


@dataclass
class _Endpoint:
    """A model at an endpoint, for requests with any key.

    Attributes:
        url: The full address of the endpoint, which ends with `/embeddings`.
        sends_dimension: Whether requests ask for vectors of this length.
        time_limit: The seconds that all attempts to embed may take together.
        concurrency: The maximum number of simultaneous requests with one key.
        breaker: The circuit breaker, which all keys share.
    """

    url: str
    model: str
    dimension: int
    sends_dimension: bool
    time_limit: float
    concurrency: int
    breaker: CircuitBreaker

    async def post(self, texts: Sequence[str], key: _Key) -> httpx2.Response:
        """Send one request, and return the response whatever its status.

        Raises:
            TimeoutError: The endpoint takes too long.
            Unavailable: The endpoint cannot be reached.
            PlatformFault: The address is not valid, or the response cannot be decoded.
            Forbidden: No header can carry the caller's key.
        """
        import httpx2

        if not key.is_valid_in_header:
            raise self._make_rejection_error(401, key)
        failure: CarrelError
        try:
            async with asyncio.timeout(self.time_limit / ATTEMPTS_IN_TIME):
                return await self._client.post(
                    self.url, headers=key.headers, json=self._build_request(texts)
                )
        except (httpx2.UnsupportedProtocol, httpx2.InvalidURL):
            failure = self.make_configuration_error(404)
        except httpx2.TransportError:
            failure = Unavailable("The embeddings endpoint cannot be reached: try again later.")
        except httpx2.HTTPError:
            failure = self._make_invalid_answer_error(
                "The embeddings endpoint sent an answer that cannot be decoded."
            )
        raise failure

    def map_error(self, response: httpx2.Response, key: _Key) -> Exception:
        """Make the error for a response without vectors, and log it if the operator must act."""
        status = response.status_code
        if status == 402 or (400 <= status < 500 and _is_out_of_quota(response.content)):  # noqa: PLR2004 - HTTP statuses
            return self._make_quota_error(key)
        if status in {408, 429} or response.is_server_error:
            return _make_busy_error(response, key)
        if status in _INPUT_STATUSES:
            return _RejectedTexts(status)
        return self._make_rejection_error(status, key)

    def parse_answer(self, response: httpx2.Response, count: int) -> _EmbeddedTexts:
        """Parse the vectors of `count` texts, in the order of the texts, and their tokens.

        Raises:
            PlatformFault: The answer does not contain one valid vector for each text.
        """
        try:
            answer = _Answer.model_validate_json(response.content)
        except ValidationError:
            answer = None
        if answer is None:
            raise self._make_invalid_answer_error(
                "The embeddings endpoint sent an answer that is not valid."
            )
        rows = sorted(answer.data, key=lambda row: row.index)
        if [row.index for row in rows] != list(range(count)):
            raise self._make_invalid_answer_error(
                f"The embeddings endpoint returned {len(rows)} vectors, not one for each of"
                f" {count} texts."
            )
        try:
            vectors = [unit_vector(row.embedding, self.dimension) for row in rows]
        except PlatformFault as fault:
            raise self._make_invalid_answer_error(fault.message) from None
        return _EmbeddedTexts(vectors, answer.input_tokens)

    def make_configuration_error(self, status: int) -> PlatformFault:
        """Log advice for the operator, and make the error for a rejected deployment."""
        advice = _ADVICE.get(status, "check the base URL")
        log.error("embeddings_refused", model=self.model, status=status, advice=advice)
        return PlatformFault(f"The embeddings endpoint rejects this deployment ({status}).")

    async def aclose(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            await self._client.aclose()

    def _build_request(self, texts: Sequence[str]) -> dict[str, Any]:
        length = {"dimensions": self.dimension} if self.sends_dimension else {}
        return {"model": self.model, "input": list(texts), "encoding_format": "float", **length}

    def _make_rejection_error(self, status: int, key: _Key) -> CarrelError:
        if key.belongs_to_caller and status in _KEY_STATUSES:
            return Forbidden(
                "The embeddings endpoint rejected your key, with which this call embeds. Call with"
                " a key that the endpoint accepts."
            )
        return self.make_configuration_error(status)

    def _make_quota_error(self, key: _Key) -> CarrelError:
        if key.belongs_to_caller:
            return PaymentRequired(
                "Your account at the embeddings endpoint has no quota left. Top it up there, or"
                " call with the key of another account."
            )
        log.error("embeddings_refused", model=self.model, status=402, advice=_ADVICE[402])
        message = "The embeddings endpoint has no quota left for this deployment: try again later."
        return Unavailable(message, retry_after=MAX_RETRY_AFTER)

    def _make_invalid_answer_error(self, message: str) -> PlatformFault:
        """Log and make the error for an invalid answer. The message must not quote the answer."""
        log.error("embeddings_unreadable", model=self.model, reason=message)
        return PlatformFault(message)

    @cached_property
    def _client(self) -> httpx2.AsyncClient:
        """The HTTP client.

        It accepts no cookies, which would carry over to other callers' requests. It has no timeout,
        because an endpoint that sends slowly would stay within a limit for each read. Instead,
        `post` limits the whole exchange.
        """
        from http.cookiejar import CookieJar, DefaultCookiePolicy

        import httpx2

        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        return httpx2.AsyncClient(timeout=None, cookies=no_cookies)


class _RejectedTexts(Exception):
    """The endpoint rejects a request for its texts."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _Row(BaseModel, strict=True):
    index: int
    embedding: list[float]


class _Answer(BaseModel, strict=True):
    data: list[_Row]
    usage: Any = None
    """Telemetry alone reads this field, so an endpoint may send anything here, or nothing."""

    @property
    def input_tokens(self) -> int:
        tokens = self.usage.get("prompt_tokens") if isinstance(self.usage, dict) else None
        return tokens if isinstance(tokens, int) else 0


class _ErrorAnswer(BaseModel):
    error: dict[str, Any]


def _is_out_of_quota(content: bytes) -> bool:
    try:
        error = _ErrorAnswer.model_validate_json(content).error
    except ValidationError:
        return False
    return any(error.get(name) in _OUT_OF_QUOTA for name in ("code", "type"))


def _make_busy_error(response: httpx2.Response, key: _Key) -> CarrelError:
    wait = parse_retry_after(response.headers.get("retry-after", ""), utc_now())
    if key.belongs_to_caller and response.status_code == 429:  # noqa: PLR2004 - Too Many Requests
        message = "The embeddings endpoint throttles your key: try again later."
        return RateLimited(message, retry_after=wait)
    message = "The embeddings endpoint is busy or failing: try again later."
    return Unavailable(message, retry_after=wait)


class _KeyedEmbedder:
    """An embedder with one key. The endpoint owns the connections."""

    batch_size = 32

    def __init__(self, endpoint: _Endpoint, key: _Key) -> None:
        self.model = endpoint.model
        self.dimension = endpoint.dimension
        self._endpoint = endpoint
        self._key = key
        # Each key has its own slots, so that its hanging calls do not block calls with other keys.
        self._slots = asyncio.Semaphore(endpoint.concurrency)

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed the texts in parallel batches. The first failure cancels the other batches."""
        require_unicode(texts)
        if not texts:
            return []
        with (
            embedding_span("openai", self, texts) as request,
            self._endpoint.breaker.attempt() as attempt,
        ):
            try:
                embedded = await self._embed_all(texts, purpose)
            except CarrelError as error:
                if self._key.belongs_to_caller:
                    # The key may be at fault, so the failure says nothing about the endpoint.
                    attempt.healthy = None
                else:
                    # An endpoint that answers at all, even with an error, is reachable.
                    attempt.healthy = not isinstance(error, Unavailable)
                raise
            attempt.healthy = True
            record_input_tokens(request, embedded.input_tokens)
        return embedded.vectors

    async def aclose(self) -> None:
        """Do nothing, since the connections belong to the endpoint."""

    async def _embed_all(self, texts: Sequence[str], purpose: Purpose) -> _EmbeddedTexts:
        deadline = compute_deadline(purpose, self._endpoint.time_limit)
        batches = await run_concurrently(
            self._embed_batch(texts[offset : offset + self.batch_size], offset, deadline)
            for offset in range(0, len(texts), self.batch_size)
        )
        return _join(batches)

    async def _embed_batch(
        self, texts: Sequence[str], offset: int, deadline: float
    ) -> _EmbeddedTexts:
        """Embed a batch. If the endpoint rejects the batch, find the text at fault.

        The endpoint's error does not name a text. The batch may be too large, one text may be at
        fault, or the endpoint may reject every text because of its configuration. A probe with a
        harmless text rules out the configuration.

        Args:
            offset: The index of the batch's first text among all texts, for the error.
            deadline: When to stop, on the event loop's clock.

        Raises:
            InvalidInput: The endpoint rejects one of the texts.
        """
        is_probed = False

        async def embed_or_probe(batch: Sequence[str]) -> _EmbeddedTexts:
            nonlocal is_probed
            try:
                return await self._embed_with_retries(batch, deadline)
            except _RejectedTexts as rejection:
                if not is_probed:
                    await self._probe(rejection.status, deadline)
                    is_probed = True
                raise

        parts: list[_EmbeddedTexts] = []
        async for _, outcome in bisect_batch(texts, embed_or_probe, _RejectedTexts):
            if isinstance(outcome, _RejectedTexts):
                # `bisect_batch` yields in order, so the rejected text follows those with a vector.
                embedded_count = sum(len(part.vectors) for part in parts)
                raise _make_rejection_error(offset + embedded_count)
            parts.append(outcome)
        return _join(parts)

    async def _probe(self, status: int, deadline: float) -> None:
        """Embed a harmless text, after texts were rejected with this status.

        Raises:
            PlatformFault: The endpoint rejects the harmless text, too.
        """
        try:
            await self._embed_with_retries([PROBE], deadline)
        except _RejectedTexts:
            raise self._endpoint.make_configuration_error(status) from None

    async def _embed_with_retries(self, texts: Sequence[str], deadline: float) -> _EmbeddedTexts:
        return await retry_with_backoff(
            partial(self._request_vectors, texts, deadline), deadline=deadline
        )

    async def _request_vectors(self, texts: Sequence[str], deadline: float) -> _EmbeddedTexts:
        try:
            async with asyncio.timeout_at(deadline), self._slots:
                response = await self._endpoint.post(texts, self._key)
        except TimeoutError:
            # The time includes the wait for a slot, so the endpoint may be slow or only busy.
            message = "The embeddings endpoint did not answer in time: try again later."
            raise Unavailable(message) from None
        if not response.is_success:
            raise self._endpoint.map_error(response, self._key)
        return self._endpoint.parse_answer(response, len(texts))


class OpenAIEmbedder(_KeyedEmbedder):
    """Embeds with a model at an OpenAI-compatible endpoint, with the deployment's key.

    An instance belongs to the event loop that first uses it.
    """

    def __init__(  # noqa: PLR0913 - keyword arguments from settings
        self,
        *,
        base_url: str,
        model: str,
        dimension: int,
        sends_dimension: bool = True,
        api_key: SecretStr | None = None,
        time_limit: float = 30.0,
        concurrency: int = 4,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        """Configure the endpoint. Connections open on first use.

        Args:
            base_url: The address without `/embeddings`, such as `https://api.openai.com/v1`.
            sends_dimension: Whether requests ask for vectors of this length. Many endpoints
                reject the parameter.
            time_limit: The seconds that a call of `embed` may take, including retries.
            concurrency: How many requests may run at once with one key.
        """
        endpoint = _Endpoint(
            url=f"{base_url.rstrip('/')}/embeddings",
            model=model,
            dimension=dimension,
            sends_dimension=sends_dimension,
            time_limit=time_limit,
            concurrency=concurrency,
            breaker=breaker or CircuitBreaker("The embeddings endpoint"),
        )
        super().__init__(endpoint, _Key(api_key, belongs_to_caller=False))

    def on_behalf_of(self, api_key: SecretStr) -> Embedder:
        """Return an embedder for the same model and connections, with a caller's key.

        In addition to the errors of any embedder, `embed` then raises `Forbidden` (the endpoint
        rejects the key), `PaymentRequired` (the key's account is empty) and `RateLimited` (the key
        is throttled). Failures with a caller's key do not count towards the circuit breaker.
        """
        return _KeyedEmbedder(self._endpoint, _Key(api_key, belongs_to_caller=True))

    async def aclose(self) -> None:
        """Close the connections, which all callers share."""
        await self._endpoint.aclose()


def _join(parts: Sequence[_EmbeddedTexts]) -> _EmbeddedTexts:
    """Join the vectors of several requests in order, and add up their tokens."""
    vectors = [vector for part in parts for vector in part.vectors]
    return _EmbeddedTexts(vectors, sum(part.input_tokens for part in parts))


def _make_rejection_error(index: int) -> InvalidInput:
    return InvalidInput(
        f"The embedding model rejected text {index}: it may be empty or too long. Change it.",
        details={"text": index},
    )
