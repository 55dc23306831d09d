"""Embedders: coercion of every kind of object, the check of what they return, and the lexical one.

The classes below have the methods of the libraries they are named for, and do real (small) work. The libraries
themselves are extras: where one is installed its adapter is run against it, offline.
"""

from __future__ import annotations

import functools
import http.server
import json
import math
import sys
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiermem_fast import embedding
from tiermem_fast.embedding import Embedder, LexicalEmbedder, Matrix, as_embedder
from tiermem_fast.errors import InvalidInput

TEXTS = ["to be", "or not to be", "这是中文"]


def vectors(texts: Sequence[str], shift: float = 0.0) -> list[list[float]]:
    """Three countable things of a text; the shift tells which way it came."""
    return [[len(text) + shift, text.count("o"), 1.0] for text in texts]


class Own:
    """The protocol itself."""

    dimension = 3
    model_id = "own-1"

    def embed(self, texts: Sequence[str], kind: str = "document") -> Matrix:
        return np.array(vectors(texts, 100.0 if kind == "query" else 0.0), np.float32)


class SentenceTransformers:
    """``encode`` with named prompts, as before version 5."""

    model_name = "st-model"

    def __init__(self, prompts: dict[str, str] | None) -> None:
        self.prompts = prompts

    def encode(self, sentences: list[str], prompt_name: str | None = None) -> np.ndarray[Any, Any]:
        shift = len(self.prompts[prompt_name]) if self.prompts and prompt_name else 0
        return np.array(vectors(sentences, shift), np.float64)

    def __call__(self, _features: object) -> object:  # such models are callable, and not with texts
        raise AssertionError


class SentenceTransformers5:
    """``encode_query`` and ``encode_document``."""

    def encode(self, _sentences: list[str]) -> np.ndarray[Any, Any]:
        raise AssertionError

    def encode_query(self, sentences: list[str]) -> np.ndarray[Any, Any]:
        return np.array(vectors(sentences, 100.0))

    def encode_document(self, sentences: list[str]) -> np.ndarray[Any, Any]:
        return np.array(vectors(sentences))


class FastEmbed:
    """Generators of rows."""

    model_name = "BAAI/bge-small-en-v1.5"

    def embed(self, documents: list[str]) -> Iterator[np.ndarray[Any, Any]]:
        return (np.array(row) for row in vectors(documents))

    def query_embed(self, query: list[str]) -> Iterator[np.ndarray[Any, Any]]:
        return (np.array(row) for row in vectors(query, 100.0))


class LangChain:
    """One query at a time."""

    model = "lc-model"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return vectors(texts)

    def embed_query(self, text: str) -> list[float]:
        return vectors([text], 100.0)[0]


class Tensor:
    """As much of a tensor as matters: it has to be detached and brought to the processor first."""

    def __init__(self, rows: list[list[float]]) -> None:
        self.rows = rows

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray[Any, Any]:
        return np.array(self.rows)

    def __array__(self) -> None:
        raise TypeError("can't convert a tensor on a device to numpy")


KINDS: list[tuple[Any, str, float]] = [
    (Own(), "own-1", 100.0),
    (SentenceTransformers(None), "st-model", 0.0),
    (SentenceTransformers({"query": "", "document": ""}), "st-model", 0.0),
    (SentenceTransformers({"query": "q: "}), "st-model", 3.0),
    (SentenceTransformers5(), f"{__name__}.SentenceTransformers5", 100.0),
    (FastEmbed(), "BAAI/bge-small-en-v1.5", 100.0),
    (LangChain(), "lc-model", 100.0),
    (vectors, f"{__name__}.vectors", 0.0),
    (functools.partial(vectors, shift=0.0), f"{__name__}.vectors", 0.0),
    (lambda texts: Tensor(vectors(texts)), f"{__name__}.<lambda>", 0.0),
    (lambda texts: [Tensor(row) for row in vectors(texts)], f"{__name__}.<lambda>", 0.0),  # type: ignore[arg-type]
    (lambda texts: np.array(vectors(texts), np.float16), f"{__name__}.<lambda>", 0.0),
    (lambda texts: np.asfortranarray(np.array(vectors(texts)).astype(np.int64)), f"{__name__}.<lambda>", 0.0),
]


class TestCoercion:
    @pytest.mark.parametrize(("raw", "model_id", "shift"), KINDS)
    def test_every_kind_gives_the_same_vectors(self, raw: Any, model_id: str, shift: float) -> None:
        embedder = as_embedder(raw)
        assert isinstance(embedder, Embedder)
        assert embedder.model_id == model_id
        documents, queries = embedder.embed(TEXTS), embedder.embed(TEXTS, "query")
        for matrix, expected in ((documents, vectors(TEXTS)), (queries, vectors(TEXTS, shift))):
            assert matrix.dtype == np.float32
            assert matrix.flags.c_contiguous
            np.testing.assert_array_equal(matrix, expected)
        assert embedder.dimension == 3

    def test_the_prompt_of_documents_is_used_as_well(self) -> None:
        embedder = as_embedder(SentenceTransformers({"query": "q: ", "passage": "passage: "}))
        np.testing.assert_array_equal(embedder.embed(["x"]), vectors(["x"], 9))

    def test_is_done_once(self) -> None:
        embedder = as_embedder(vectors)
        assert as_embedder(embedder) is embedder
        renamed = as_embedder(embedder, model_id="other")
        assert renamed.model_id == "other"
        np.testing.assert_array_equal(renamed.embed(TEXTS), embedder.embed(TEXTS))

    def test_a_name_given_wins(self) -> None:
        assert as_embedder(Own(), model_id="mine").model_id == "mine"
        assert "mine" in repr(as_embedder(vectors, model_id="mine"))

    @pytest.mark.parametrize("raw", [None, 3, object(), [1.0], {"a": 1}, b"lexical"])
    def test_what_makes_no_vectors_is_refused(self, raw: object) -> None:
        with pytest.raises(InvalidInput, match="makes no vectors") as caught:
            as_embedder(raw)
        assert caught.value.argument == "embedder"

    def test_a_class_is_not_its_instance(self) -> None:
        with pytest.raises(InvalidInput, match="FastEmbed is a class; give one of its instances"):
            as_embedder(FastEmbed)

    @pytest.mark.parametrize("dimension", [0, -1, 2.0, True, "384"])
    def test_a_dimension_is_a_number_of_places(self, dimension: Any) -> None:
        with pytest.raises(InvalidInput, match=r"^dimension: "):
            as_embedder(vectors, dimension=dimension)

    @pytest.mark.parametrize("model_id", ["", 3])
    def test_a_model_id_is_a_name(self, model_id: Any) -> None:
        with pytest.raises(InvalidInput, match=r"^model_id: "):
            as_embedder(vectors, model_id=model_id)


class TestCheck:
    def test_texts_go_in_batches_and_come_back_in_order(self) -> None:
        sizes: list[int] = []

        def counted(texts: list[str]) -> list[list[float]]:
            sizes.append(len(texts))
            return [[float(text)] for text in texts]

        matrix = as_embedder(counted).embed([str(number) for number in range(600)])
        assert sizes == [256, 256, 88]
        np.testing.assert_array_equal(matrix[:, 0], np.arange(600))

    def test_no_texts_are_no_rows(self) -> None:
        assert as_embedder(vectors).embed([]).shape == (0, 3)
        assert as_embedder(vectors, dimension=3).embed([], "query").shape == (0, 3)
        assert as_embedder("lexical").embed(()).shape == (0, 384)

    def test_the_dimension_is_learnt_once(self) -> None:
        calls: list[list[str]] = []

        def watched(texts: list[str]) -> list[list[float]]:
            calls.append(texts)
            return vectors(texts)

        embedder = as_embedder(watched)
        assert calls == []  # nothing is run before it is needed
        assert (embedder.dimension, embedder.dimension, len(calls)) == (3, 3, 1)
        learnt = as_embedder(watched)
        learnt.embed(["x"])
        assert (learnt.dimension, len(calls)) == (3, 2)

    @pytest.mark.parametrize(
        ("answer", "part"),
        [
            ([[1.0, 2.0]], r"shape \(1, 2\) for 2 texts, not \(2, dimension\)"),
            ([1.0, 2.0], r"shape \(2,\)"),
            (np.zeros((2, 0)), r"shape \(2, 0\)"),
            (np.ones((2, 1, 3)), r"shape \(2, 1, 3\)"),
            ([[1.0, 2.0], [1.0]], "different lengths"),
            ([[1.0, math.nan], [1.0, 2.0]], "NaN or infinity for 'first'"),
            ([[1.0, 2.0], [1.0, math.inf]], "NaN or infinity for 'second'"),
            ([[1.0, 1e39], [1.0, 1.0]], "NaN or infinity for 'first'"),
            ([["a", "b"], ["c", "d"]], "array of <U1"),
            ([[1 + 2j], [1j]], "array of complex128"),
            ([[True], [False]], "array of bool"),
            ([[None], [None]], "array of object"),
            (3.0, "one number"),
            (None, "array of object"),
            ({"data": 1}, "array of <U4"),
        ],
    )
    def test_a_wrong_answer_names_the_embedder(self, answer: Any, part: str) -> None:
        embedder = as_embedder(lambda _texts: answer, model_id="broken")
        with pytest.raises(InvalidInput, match=part) as caught:
            embedder.embed(["first", "second"])
        assert str(caught.value).startswith("embedder: 'broken' returned ")

    def test_another_dimension_than_before_or_told_is_refused(self) -> None:
        answers = iter([np.ones((1, 3)), np.ones((1, 4))])
        embedder = as_embedder(lambda _texts: next(answers))
        embedder.embed(["x"])
        with pytest.raises(InvalidInput, match=r"shape \(1, 4\) for 1 texts, not \(1, 3\)"):
            embedder.embed(["x"])
        with pytest.raises(InvalidInput, match=r"not \(1, 5\)"):
            as_embedder(vectors, dimension=5).embed(["x"])

    def test_an_async_function_is_refused(self) -> None:
        async def later(texts: list[str]) -> list[list[float]]:
            return vectors(texts)

        with pytest.raises(InvalidInput, match="a coroutine; give a function that is not async"):
            as_embedder(later).embed(["x"])

    def test_a_failure_inside_keeps_its_class_and_says_where(self) -> None:
        def failing(_texts: list[str]) -> None:
            raise ConnectionError("no route")

        with pytest.raises(ConnectionError, match="no route") as caught:
            as_embedder(failing, model_id="far").embed(["x"])
        assert caught.value.__notes__ == ["while the embedder 'far' embedded 1 texts"]

    @pytest.mark.parametrize("texts", ["one text", ["x", None], [b"x"], [["x"]]])
    def test_texts_are_a_list_of_texts(self, texts: Any) -> None:
        with pytest.raises(InvalidInput, match=r"^texts: "):
            as_embedder(vectors).embed(texts)

    def test_a_kind_is_one_of_two(self) -> None:
        with pytest.raises(InvalidInput, match=r"^kind: 'passage' is unknown"):
            as_embedder(vectors).embed(["x"], "passage")  # type: ignore[arg-type]


class TestNames:
    @pytest.mark.parametrize(
        ("name", "part"),
        [
            ("lexcal", "did you mean 'lexical'?"),
            ("", "known are 'lexical', 'sentence-transformers:MODEL'"),
            ("ollama:x", "known are"),
            ("openai:", "names no model; write openai:MODEL"),
            ("st", "names no model; write sentence-transformers:MODEL"),
        ],
    )
    def test_unknown_ones_are_refused(self, name: str, part: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            as_embedder(name)
        assert part in str(caught.value)

    @pytest.mark.parametrize(
        ("name", "module", "extra"),
        [
            ("st:x", "sentence_transformers", "sentence-transformers"),
            ("sentence-transformers:x", "sentence_transformers", "sentence-transformers"),
            ("model2vec:x", "model2vec", "model2vec"),
            ("fastembed:x", "fastembed", "fastembed"),
            ("openai:x", "openai", "openai"),
        ],
    )
    def test_a_missing_extra_is_named(
        self, monkeypatch: pytest.MonkeyPatch, name: str, module: str, extra: str
    ) -> None:
        monkeypatch.setitem(sys.modules, module, None)  # what an absent module looks like to an import
        with pytest.raises(InvalidInput) as caught:
            as_embedder(name)
        assert f"pip install 'tiermem-fast[{extra}]'" in str(caught.value)
        assert isinstance(caught.value.__cause__, ImportError)

    def test_sentence_transformers_gets_its_model_and_dimension(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[Any] = []

        def make(name: str, **options: Any) -> SentenceTransformers5:
            made.append((name, options))
            return SentenceTransformers5()

        module = type(sys)("sentence_transformers")
        vars(module)["SentenceTransformer"] = make
        monkeypatch.setitem(sys.modules, "sentence_transformers", module)
        assert as_embedder("st:mini").model_id == "sentence-transformers:mini"
        embedder = as_embedder("st:mini", dimension=3)
        np.testing.assert_array_equal(embedder.embed(TEXTS, "query"), vectors(TEXTS, 100.0))
        assert made == [("mini", {}), ("mini", {"truncate_dim": 3})]

    def test_fastembed_gets_its_model(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module = type(sys)("fastembed")
        vars(module)["TextEmbedding"] = lambda *, model_name: FastEmbed() if model_name == "bge" else None
        monkeypatch.setitem(sys.modules, "fastembed", module)
        embedder = as_embedder("fastembed:bge")
        assert embedder.model_id == "fastembed:bge"
        np.testing.assert_array_equal(embedder.embed(TEXTS, "query"), vectors(TEXTS, 100.0))


class TestTheLibrariesThemselves:
    """Skipped where the extra is not installed: none of them is needed to use the package."""

    def test_model2vec_from_a_directory(self, tmp_path: Path) -> None:
        model2vec = pytest.importorskip("model2vec")
        tokenizers = pytest.importorskip("tokenizers")
        words = {"[UNK]": 0, "tea": 1, "coffee": 2, "dog": 3}
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        table = np.random.default_rng(7).normal(size=(4, 6)).astype(np.float32)
        model = model2vec.StaticModel(vectors=table, tokenizer=tokenizer, normalize=True)
        folder = tmp_path / "tiny-model"
        model.save_pretrained(str(folder))
        embedder = as_embedder(f"model2vec:{folder}")
        assert embedder.model_id == "model2vec:tiny-model"
        np.testing.assert_allclose(
            embedder.embed(["tea dog", "coffee"]), model.encode(["tea dog", "coffee"]), rtol=1e-6
        )
        assert embedder.dimension == 6
        np.testing.assert_array_equal(as_embedder(model).embed(["tea"], "query"), embedder.embed(["tea"]))

    def test_openai_against_a_server_of_this_test(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("openai")
        asked: list[dict[str, Any]] = []

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked.append(body)
                rows = [[float(len(text)), 1.0] for text in body["input"]]
                data = [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(rows)]
                # Out of order on purpose: the protocol has an index for that.
                answer = {"object": "list", "model": body["model"], "data": data[::-1], "usage": {}}
                payload = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, *_arguments: object) -> None:
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
                monkeypatch.setenv("OPENAI_API_KEY", "for-a-server-of-this-test")
                embedder = as_embedder("openai:text-embedding-3-small", dimension=2)
                np.testing.assert_array_equal(embedder.embed(["a", "bbb"]), [[1.0, 1.0], [3.0, 1.0]])
            finally:
                server.shutdown()
                thread.join()
        assert embedder.model_id == "openai:text-embedding-3-small"
        assert [(body["model"], body["input"], body["dimensions"]) for body in asked] == [
            ("text-embedding-3-small", ["a", "bbb"], 2)
        ]

    def test_langchain_embeddings(self) -> None:
        fake = pytest.importorskip("langchain_core.embeddings").DeterministicFakeEmbedding(size=8)
        embedder = as_embedder(fake, model_id="fake")
        matrix = embedder.embed(TEXTS)
        assert matrix.shape == (3, 8)
        np.testing.assert_allclose(matrix[0], np.array(fake.embed_query(TEXTS[0]), np.float32))

    def test_fastembed_has_the_methods_that_are_called(self) -> None:
        model = pytest.importorskip("fastembed").TextEmbedding
        assert callable(model.embed)
        assert callable(model.query_embed)
        with pytest.raises(InvalidInput, match="is a class"):
            as_embedder(model)


def similarity(one: str, other: str) -> float:
    first, second = LexicalEmbedder().embed([one, other])
    return float(first @ second)


class TestLexical:
    def test_is_named_with_what_decides_its_vectors(self) -> None:
        assert as_embedder("lexical").model_id == "lexical-1-384"
        embedder = as_embedder("lexical", dimension=64)
        assert (embedder.model_id, embedder.dimension, embedder.embed(["x"]).shape) == ("lexical-1-64", 64, (1, 64))

    @pytest.mark.parametrize(
        ("question", "near", "far"),
        [
            ("formal mail to the director", "Mails to directors stay formal", "The dog has been to the vet"),
            ("budget of Q3", "The Q3 budget is 12500", "The Q4 headcount is 14"),
            ("recieve the invoice", "When will I receive the invoices?", "Where is the train station?"),
            ("给李总写邮件", "给李总的邮件要正式", "我养了一只小狗"),
            ("咖啡", "他喜欢喝咖啡", "他喜欢喝绿茶"),
            ("東京の天気", "明日の東京の天気は晴れです", "犬が好きです"),
            ("회의 시간", "회의시간은 세 시입니다", "강아지를 좋아해요"),
            ("бюджет проекта", "Бюджет проектов утверждён", "Собака лает"),
            ("order AB-1234-X", "AB-1234-X has shipped", "CD-9876-Y has shipped"),
        ],
    )
    def test_shared_wording_is_near(self, question: str, near: str, far: str) -> None:
        assert similarity(question, near) > similarity(question, far) + 0.15

    def test_knows_nothing_of_meaning(self) -> None:
        assert abs(similarity("car", "automobile")) < 0.2

    def test_form_and_case_of_letters_do_not_matter(self) -> None:
        for one, other in (("Café", "CAFE\u0301"), ("ＡＢＣ１２３", "abc123"), ("STRASSE", "straße"), ("a  b", "a\nb")):
            assert similarity(one, other) == pytest.approx(1.0, abs=1e-6)

    @given(st.lists(st.text(max_size=60), max_size=5))
    def test_any_text_has_a_finite_vector_of_length_1(self, texts: list[str]) -> None:
        matrix = LexicalEmbedder(64).embed(texts)
        assert matrix.shape == (len(texts), 64)
        assert matrix.dtype == np.float32
        # Two features of one text may take the same place with different signs and leave nothing: then all is 0.
        norms = np.linalg.norm(matrix, axis=1)
        assert np.all((np.abs(norms - 1.0) < 1e-5) | (norms == 0.0))

    @given(st.lists(st.text(min_size=1, max_size=40), min_size=2, max_size=6))
    def test_a_text_has_the_same_vector_alone_and_among_others(self, texts: list[str]) -> None:
        together = LexicalEmbedder().embed(texts)
        alone = np.concatenate([LexicalEmbedder().embed([text], "query") for text in texts])
        np.testing.assert_array_equal(together, alone)

    @pytest.mark.parametrize("text", ["", "   ", "!!!", "🎉", "\x00", "\ud800", "…", "_", "w" * 65_536, "字" * 20_000])
    def test_odd_texts_have_one_too(self, text: str) -> None:
        (vector,) = LexicalEmbedder().embed([text])
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)

    def test_is_the_same_on_every_machine(self) -> None:
        (vector,) = LexicalEmbedder(8).embed(["Replies stay formal 回复要正式"])
        # Stores hold such vectors: other numbers here need another model id.
        expected = [0.230245, 0.209686, -0.156865, -0.14951, -0.489095, 0.129809, 0.774566, -0.006497]
        np.testing.assert_allclose(vector, expected, atol=2e-6)

    def test_long_words_are_not_kept(self) -> None:
        embedding._features.cache_clear()
        LexicalEmbedder().embed(["w" * 100, "short"])
        assert embedding._features.cache_info().currsize == 1

    def test_reads_unicode_as_the_standard_says(self) -> None:
        text = "ｶﾞｷﾞ"
        assert similarity(text, unicodedata.normalize("NFKC", text)) == pytest.approx(1.0, abs=1e-6)
