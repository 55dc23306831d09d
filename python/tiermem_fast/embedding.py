"""From anything that makes vectors to one checked :class:`Embedder`.

Owns the protocol, the coercion by duck type, the adapters of known libraries, and the built-in lexical embedder. Calls
:mod:`.errors` and numpy; a library behind an extra is imported when its embedder is made, and nothing here touches the
network by itself. It promises that what an embedder of :func:`as_embedder` returns is float32, finite and of the shape
asked for, or an :class:`.errors.InvalidInput` names the embedder and what came instead.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidInput, nearest, shown

__all__ = ["Embedder", "Kind", "LexicalEmbedder", "Matrix", "as_embedder"]

Kind: TypeAlias = Literal["document", "query"]
"""What the texts are: some models embed a question otherwise than what answers it."""
Matrix: TypeAlias = NDArray[np.float32]
"""Vectors as rows, shape ``(n, dimension)``."""

BATCH = 256
"""Texts that one call to a foreign embedder is given at most."""


@runtime_checkable
class Embedder(Protocol):
    """What turns texts into vectors.

    Attributes
    ----------
    dimension
        Length of a vector.
    model_id
        Name of the model. A store remembers it, for vectors of two models cannot be compared.
    """

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    @property
    def model_id(self) -> str:
        """Name of the model."""
        ...

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> Matrix:
        """Vectors of the texts, float32, shape ``(n, dimension)``, in their order."""
        ...


def as_embedder(embedder: object, *, model_id: str | None = None, dimension: int | None = None) -> Embedder:
    """Make an :class:`Embedder` of whatever makes vectors.

    Parameters
    ----------
    embedder
        One of

        * an :class:`Embedder`;
        * a callable from a list of texts to vectors;
        * an object with ``embed_documents`` and ``embed_query`` (LangChain), with ``embed`` and perhaps ``query_embed``
          (fastembed), or with ``encode`` (sentence-transformers, model2vec); where it knows prompts for queries and
          documents they are used;
        * a text: ``"lexical"``, or a library and a model behind the extra of that name:
          ``"sentence-transformers:NAME"`` (or ``"st:NAME"``), ``"model2vec:NAME or directory"``, ``"fastembed:NAME"``,
          ``"openai:NAME"``.
    model_id
        Name of the model where the object does not tell a good one. A callable is called by its qualified name.
    dimension
        Length of a vector. Not given, it is learnt from the first vectors, or by embedding one word when it is asked
        for before. The lexical embedder has 384 unless told otherwise, and OpenAI's models are asked to shorten theirs.

    Returns
    -------
    Embedder
        Checked: see the module.

    Raises
    ------
    InvalidInput
        If it is nothing that makes vectors, or the extra of its library is not installed.

    Examples
    --------
    >>> def length_and_words(texts):
    ...     return [[len(text), len(text.split())] for text in texts]
    >>> embedder = as_embedder(length_and_words, model_id="toy")
    >>> embedder.embed(["to be"]), embedder.dimension, embedder.model_id
    (array([[5., 2.]], dtype=float32), 2, 'toy')
    >>> as_embedder("lexical").embed(["formal mails", "a formal mail"]).shape
    (2, 384)
    """
    if isinstance(embedder, _Checked) and model_id is None and dimension in (None, embedder.known_dimension):
        return embedder
    _check_arguments(model_id, dimension)
    if isinstance(embedder, str):
        document, query, name, dimension = _named(embedder, dimension)
    else:
        document, query, name, dimension = _duck(embedder, dimension)
    return _Checked(document, query, model_id or name, dimension)


def _check_arguments(model_id: str | None, dimension: int | None) -> None:
    if model_id is not None and (not isinstance(model_id, str) or not model_id):
        raise InvalidInput.of("model_id", f"{shown(model_id)} is not a name")
    if dimension is not None and (isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1):
        raise InvalidInput.of("dimension", f"{shown(dimension)} is not a length of vectors")


_Embed: TypeAlias = Callable[[list[str]], Any]
_Parts: TypeAlias = tuple[_Embed, _Embed, str, int | None]


class _Checked:
    """An embedder whose every answer was checked; texts go to it in batches."""

    def __init__(self, document: _Embed, query: _Embed, model_id: str, dimension: int | None) -> None:
        self._document = document
        self._query = query
        self._model_id = model_id
        self.known_dimension = dimension

    @property
    def model_id(self) -> str:
        return self._model_id

    @property
    def dimension(self) -> int:
        if self.known_dimension is None:
            self.embed(["dimension"])
        if self.known_dimension is None:
            raise InvalidInput.of("embedder", f"{self._model_id!r} does not tell its dimension")
        return self.known_dimension

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> Matrix:
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise InvalidInput.of("texts", f"{shown(texts)} is not a list of texts")
        if kind not in ("document", "query"):
            raise InvalidInput.of("kind", f"{shown(kind)} is unknown; known are 'document', 'query'")
        function = self._query if kind == "query" else self._document
        rows = list(texts)
        parts = [self._batch(function, rows[start : start + BATCH]) for start in range(0, len(rows), BATCH)]
        if not parts:
            return np.empty((0, self.dimension), np.float32)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _batch(self, function: _Embed, texts: list[str]) -> Matrix:
        try:
            answer = function(texts)
            matrix = _as_matrix(answer)
        except InvalidInput:
            raise
        except Exception as error:
            error.add_note(f"while the embedder {self._model_id!r} embedded {len(texts)} texts")
            raise
        if isinstance(matrix, str):
            raise self._refusal(f"returned {matrix}")
        expected = (len(texts), self.known_dimension or matrix.shape[-1])
        if matrix.ndim != 2 or matrix.shape != expected or matrix.shape[1] == 0:
            wanted = f"({len(texts)}, {self.known_dimension or 'dimension'})"
            raise self._refusal(f"returned an array of shape {matrix.shape} for {len(texts)} texts, not {wanted}")
        finite = np.isfinite(matrix).all(axis=1)
        if not finite.all():
            raise self._refusal(f"returned NaN or infinity for {shown(texts[int(np.argmin(finite))])}")
        self.known_dimension = matrix.shape[1]
        return matrix

    def _refusal(self, problem: str) -> InvalidInput:
        return InvalidInput.of("embedder", f"{self._model_id!r} {problem}")

    def __repr__(self) -> str:
        return f"<embedder {self._model_id!r}, dimension {self.known_dimension or 'not known yet'}>"


def _as_matrix(answer: Any) -> Matrix | str:
    """What an embedder returned as a contiguous float32 array, or what it is instead."""
    if hasattr(answer, "__await__"):
        if hasattr(answer, "close"):
            answer.close()
        return "a coroutine; give a function that is not async"
    if hasattr(answer, "detach"):  # a torch tensor, perhaps on another device
        answer = answer.detach().cpu().numpy()
    elif not isinstance(answer, np.ndarray) and isinstance(answer, Iterable):
        answer = [row.detach().cpu().numpy() if hasattr(row, "detach") else row for row in answer]
    try:
        array = np.asarray(answer)
    except ValueError:
        return "rows of different lengths"
    if array.dtype.kind not in "fiu":
        return f"an array of {array.dtype} ({shown(answer)})"
    if array.ndim == 0:
        return f"one number ({shown(answer)})"
    with np.errstate(over="ignore"):  # what does not fit into float32 is infinite and refused as such
        return np.ascontiguousarray(array, dtype=np.float32)


# Objects, told by what they can do.


def _duck(embedder: Any, dimension: int | None) -> _Parts:
    if isinstance(embedder, type):
        raise InvalidInput.of("embedder", f"{embedder.__qualname__} is a class; give one of its instances")
    if isinstance(embedder, Embedder):
        return (
            lambda texts: embedder.embed(texts, kind="document"),
            lambda texts: embedder.embed(texts, kind="query"),
            embedder.model_id,
            dimension or (embedder.known_dimension if isinstance(embedder, _Checked) else embedder.dimension),
        )
    name = _name_of(embedder)
    if _has(embedder, "embed_documents"):
        # LangChain takes one query at a time.
        query = embedder.embed_query if _has(embedder, "embed_query") else None
        return embedder.embed_documents, _one_by_one(query) if query else embedder.embed_documents, name, dimension
    if _has(embedder, "embed"):
        query = embedder.query_embed if _has(embedder, "query_embed") else embedder.embed
        return embedder.embed, query, name, dimension
    if _has(embedder, "encode"):
        return *_encoders(embedder), name, dimension
    if callable(embedder):
        return embedder, embedder, name, dimension
    raise InvalidInput.of(
        "embedder",
        f"{shown(embedder)} makes no vectors: it is neither callable nor has it embed, encode or embed_documents",
    )


def _one_by_one(query: Callable[[str], Any]) -> _Embed:
    return lambda texts: [query(text) for text in texts]


def _has(embedder: object, method: str) -> bool:
    return callable(getattr(embedder, method, None))


def _encoders(embedder: Any) -> tuple[_Embed, _Embed]:
    """The two ways of ``encode``: by methods of their own, by named prompts, or the same for both."""
    if _has(embedder, "encode_document") and _has(embedder, "encode_query"):
        return embedder.encode_document, embedder.encode_query
    prompts = getattr(embedder, "prompts", None)
    prompts = prompts if isinstance(prompts, dict) else {}

    def encoder(names: tuple[str, ...]) -> _Embed:
        prompt = next((name for name in names if prompts.get(name)), None)
        if prompt is None:
            return embedder.encode  # type: ignore[no-any-return]
        return lambda texts: embedder.encode(texts, prompt_name=prompt)

    return encoder(("document", "passage")), encoder(("query",))


def _name_of(embedder: Any) -> str:
    """The best name an object tells: that of its model, else of the function or class with its module."""
    for attribute in ("model_id", "model_name", "model", "base_model_name", "name_or_path"):
        value = getattr(embedder, attribute, None)
        if isinstance(value, str) and value:
            return value
    named = embedder
    while not hasattr(named, "__qualname__"):
        named = getattr(named, "func", type(named))  # functools.partial is called by its function
    return f"{named.__module__}.{named.__qualname__}"


# Texts: a library and a model.


def _named(text: str, dimension: int | None) -> _Parts:
    library, _, model = text.partition(":")
    if text == "lexical":
        lexical = LexicalEmbedder(dimension or LexicalEmbedder.DIMENSION)
        return lexical.embed, lexical.embed, lexical.model_id, lexical.dimension
    library = {"st": "sentence-transformers"}.get(library, library)
    make = _LIBRARIES.get(library)
    if make is None:
        known = ["lexical", *(f"{name}:MODEL" for name in _LIBRARIES)]
        raise InvalidInput.of("embedder", f"{shown(text)} is unknown; {nearest(text, known)}")
    if not model:
        raise InvalidInput.of("embedder", f"{shown(text)} names no model; write {library}:MODEL")
    try:
        document, query = make(model, dimension)
    except ImportError as error:
        install = f"pip install 'tiermem-fast[{library}]'"
        raise InvalidInput.of("embedder", f"{shown(text)} needs {error.name or library}: {install}") from error
    # A directory may be moved, and is the same model then.
    name = Path(model).resolve().name if Path(model).is_dir() else model
    return document, query, f"{library}:{name}", dimension


def _sentence_transformers(model: str, dimension: int | None) -> tuple[_Embed, _Embed]:
    options = {} if dimension is None else {"truncate_dim": dimension}
    return _encoders(import_module("sentence_transformers").SentenceTransformer(model, **options))


def _model2vec(model: str, dimension: int | None) -> tuple[_Embed, _Embed]:
    options = {} if dimension is None else {"dimensionality": dimension}
    return _encoders(import_module("model2vec").StaticModel.from_pretrained(model, **options))


def _fastembed(model: str, _dimension: int | None) -> tuple[_Embed, _Embed]:
    made = import_module("fastembed").TextEmbedding(model_name=model)
    return made.embed, made.query_embed


def _openai(model: str, dimension: int | None) -> tuple[_Embed, _Embed]:
    client = import_module("openai").OpenAI()
    options = {} if dimension is None else {"dimensions": dimension}

    def embed(texts: list[str]) -> list[list[float]]:
        answer = client.embeddings.create(model=model, input=texts, **options)
        return [row.embedding for row in sorted(answer.data, key=lambda row: row.index)]

    return embed, embed


_LIBRARIES: dict[str, Callable[[str, int | None], tuple[_Embed, _Embed]]] = {
    "sentence-transformers": _sentence_transformers,
    "model2vec": _model2vec,
    "fastembed": _fastembed,
    "openai": _openai,
}


# The built-in one.

# Runs without spaces between words, and words. Signs are features only where a text has nothing else.
_CJK = (
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_FIRST_CJK = "\u2e80"
_RUNS = re.compile(rf"[{_CJK}]+|[^\W{_CJK}]+")
_FREQUENT_WORDS = """
a an and are as at be but by can did do does for from had has have he her his how i if in is it its me my of on or our
she so that the their them then there they this to was we were what when where which who will with would you your
的 了 是 在 我 你 他 她 它 们 我们 你们 他们 有 和 就 都 也 吗 呢 吧 啊 这 那 不 什么 怎么
"""
_FREQUENT = frozenset(_FREQUENT_WORDS.split())
_LONG = 64
# Chosen among 24 combinations by recall@10 on four development sets, a compromise between them: the recall on those
# sets is optimistic for it.
_FREQUENT_WEIGHT = 0.05
_GRAM_WEIGHT = 1.2
_SINGLE_WEIGHT = 0.7


class LexicalEmbedder:
    """Hashed words and pieces of words: finds texts that share wording, and knows nothing of meaning.

    It is called lexical because it is: *car* and *automobile* are strangers to it, *mail* and *mails* are not. It needs
    no model, no download and no extra, is the same on every machine, and embeds thousands of turns of a conversation a
    second. Words count with their pieces of three and four letters, so that inflections and typing
    errors meet; Chinese, Japanese and Korean count by overlapping pairs of characters and single ones. Each feature is
    hashed to one place with a sign, repetition counts with its square root, frequent words count little, and the vector
    has length 1.

    Parameters
    ----------
    dimension
        Length of a vector; the longer, the fewer features share a place.

    Examples
    --------
    >>> mail, mails, dog = LexicalEmbedder().embed(["a formal mail", "formal mails", "my dog barks"])
    >>> bool(mail @ mails > 0.6 > 0.2 > mail @ dog)
    True
    """

    DIMENSION = 384

    def __init__(self, dimension: int = DIMENSION) -> None:
        _check_arguments(None, dimension)
        self._dimension = dimension

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    @property
    def model_id(self) -> str:
        """Name with the version of the features and the dimension, which decide what a vector is."""
        return f"lexical-1-{self._dimension}"

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> Matrix:  # noqa: ARG002 - the protocol has it
        """Vectors of length 1, shape ``(n, dimension)``; queries and documents alike."""
        places: list[NDArray[np.int64]] = []
        weights: list[NDArray[np.float64]] = []
        lengths = [0] * len(texts)
        for row, text in enumerate(texts):
            for word, count in Counter(_words(text)).items():
                # A word as long as a document is no word that comes again.
                features = _features if len(word) <= _LONG else _features.__wrapped__
                word_places, word_weights = features(word, self._dimension)
                places.append(word_places)
                weights.append(word_weights if count == 1 else word_weights * count**0.5)
                lengths[row] += len(word_places)
        if not places:
            return np.zeros((len(texts), self._dimension), np.float32)
        rows = np.repeat(np.arange(len(texts)) * self._dimension, lengths)
        summed = np.bincount(rows + np.concatenate(places), np.concatenate(weights), len(texts) * self._dimension)
        summed = summed.reshape(len(texts), self._dimension)
        norms = np.sqrt(np.einsum("ij,ij->i", summed, summed))
        return (summed / np.where(norms > 0.0, norms, 1.0)[:, None]).astype(np.float32)


def forget_words() -> None:
    """Drop the words that :class:`LexicalEmbedder` remembers of the texts it has seen; done after every erasure."""
    _features.cache_clear()


def _words(text: str) -> list[str]:
    """The words of a text, and of a run without spaces its pairs and single characters, each single marked."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    words: list[str] = []
    for run in _RUNS.findall(folded):
        if run[0] >= _FIRST_CJK:
            words += (run[place : place + 2] for place in range(len(run) - 1))
            words += ("\0" + sign for sign in run)
        else:
            words.append(run)
    # Signs alone are still a text, and so is a blank one: no text is without a vector.
    return words or list(folded.strip()) or ["\0 "]


@lru_cache(maxsize=1 << 15)
def _features(word: str, dimension: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Places and signed weights of a word and its pieces."""
    single = word.startswith("\0")
    weight = _FREQUENT_WEIGHT if word.lstrip("\0") in _FREQUENT else _SINGLE_WEIGHT if single else 1.0
    names, weights = [word], [weight]
    if not single and len(word) > 2 and word[0] < _FIRST_CJK and word not in _FREQUENT:
        marked = f"<{word[:_LONG]}>"
        pieces = [marked[place : place + size] for size in (3, 4) for place in range(len(marked) - size + 1)]
        names += (f"\1{piece}" for piece in pieces)
        weights += [_GRAM_WEIGHT / len(pieces) ** 0.5] * len(pieces)
    hashes = np.array([zlib.crc32(name.encode("utf-8", "surrogatepass")) for name in names], np.uint32)
    # CRC is linear, so like texts have like codes; two rounds of multiply and shift undo that.
    for factor in (0x85EB_CA6B, 0xC2B2_AE35):
        hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(factor)
    hashes ^= hashes >> np.uint32(16)
    signs = np.where(hashes >> np.uint32(31), -1.0, 1.0)
    return (hashes & np.uint32(0x7FFF_FFFF)).astype(np.int64) % dimension, signs * np.array(weights)
