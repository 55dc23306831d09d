"""The memory of one agent or tenant: :class:`TierMemory`.

Owns the public face of the engine and what one call takes several of: embedding before adding, drafting a briefing.
Calls the native module, which nobody else does but :mod:`.kernels`, and the policies below.
"""

from __future__ import annotations

import builtins
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np

from . import _core
from .arguments import (
    FIELDS,
    PATCHABLE,
    Grant,
    as_config,
    at_place,
    check_matrix,
    check_texts,
    columns_of,
    filters_of,
    ids_of,
    number_or_none,
    one_vector,
    plain,
    refuse_unknown,
    rights_of,
    whole_number,
)
from .errors import InvalidInput, MemoryNotFound, ModelMismatch, ReadOnlyStore, TiermemError, shown
from .policy.relevance import LEAST_RELEVANCE, calibrate, relevance_of
from .results import AddedId, Hits
from .tiers import Tier
from .times import TimeLike, to_seconds

if TYPE_CHECKING:
    from types import TracebackType

    import numpy.typing as npt

    from .config import Config
    from .embedding import Embedder
    from .models import (
        BackupReport,
        Briefing,
        CompactReport,
        ConsolidationReport,
        ErasureReceipt,
        ImportReport,
        MaintenanceReport,
        MemoryItem,
        SnapshotReport,
        Stats,
        VerifyReport,
    )
    from .policy.briefing import Candidate, DroppedCandidate
    from .policy.tokens import TokenCounter
    from .snapshot import Progress

__all__ = ["TierMemory"]

CHUNK: Final = 4_096
"""Memories that one ``add_many`` writes in one commit; longer input is cut, and what is in when a chunk fails stays."""

_EXTERNAL = "external"
"""The model of vectors that came without an embedder."""

_SEARCHED_TIERS = ("semantic", "episodic", "procedural")
_SEARCHED = 50
"""Memories that a briefing looks at, at most, to answer its question."""


class TierMemory:
    """A memory in four tiers, in this process.

    Made by :meth:`open`. Any number of threads may use one; it is also a context manager that closes itself.

    Examples
    --------
    >>> from tiermem_fast import TierMemory
    >>> with TierMemory.open() as mem:
    ...     id = mem.add("Replies to Director Li stay formal", tier="semantic", importance=0.85, about="Director Li")
    ...     hits = mem.search("formal mail", k=5)
    ...     hits.ids == [id], hits[0].text
    (True, 'Replies to Director Li stay formal')
    """

    __slots__ = ("__weakref__", "_config", "_embedder", "_engine", "_floor", "_path", "_read_only")

    def __init__(
        self,
        engine: _core.Engine,
        *,
        path: str | None,
        embedder: Embedder | None,
        config: Config | None,
        read_only: bool,
    ) -> None:
        self._engine = engine
        self._path = path
        self._embedder = embedder
        self._config = config
        self._read_only = read_only
        self._floor: float | None = None

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        embedder: Any = None,
        config: Config | Mapping[str, Any] | None = None,
        durability: Literal["full", "normal", "memory"] | None = None,
        read_only: bool = False,
        allow_network: bool = False,
        now: TimeLike = None,
    ) -> Self:
        """Open the store in a directory, making it when it is missing.

        Parameters
        ----------
        path
            The store's directory; ``None`` is a store in RAM that ends with this object.
        embedder
            Makes vectors of texts: anything :func:`tiermem_fast.as_embedder` takes, as a model of sentence-transformers,
            a callable from a list of texts to an array, or ``"lexical"``. Without one, search goes by keywords.
        config
            What is turned away from the defaults: a :class:`tiermem_fast.Config` or a dict of its sections.
        durability
            ``"full"``: a call returns when its commit is synced. ``"normal"``: survives a kill, a power cut may lose the
            last moments. ``"memory"``: nothing on disk.
        read_only
            Refuse every write.
        allow_network
            Open a store on a network file system although its locks may not hold.
        now
            The time of the call.

        Raises
        ------
        ModelMismatch
            If the vectors in the store are from another embedder.
        StoreLocked, CorruptStore, NewerFormat
            If the store cannot be had.
        """
        from_config = as_config(config)
        options = {} if from_config is None else from_config.flat()
        if durability is not None:
            options["durability"] = durability
        chosen = None if embedder is None else _embedder(embedder)
        directory = None if path is None or options.get("durability") == "memory" else os.fspath(path)
        engine = _core.Engine.open(
            directory, options, read_only=read_only, allow_network=allow_network, now=to_seconds(now, "now")
        )
        mem = cls(engine, path=directory, embedder=chosen, config=from_config, read_only=read_only)
        if chosen is not None:
            mem._refuse_other_model(chosen)
        return mem

    def _refuse_other_model(self, embedder: Embedder) -> None:
        known = self._engine.model()
        if known is None or known[0] == embedder.model_id:
            return
        self.close()
        raise _other_model(*known, embedder)

    def close(self) -> None:
        """Write what is pending and let go of the files. Closing twice is fine."""
        self._engine.close(to_seconds(None, "now"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<TierMemory {'in RAM' if self._path is None else self._path}>"

    @property
    def path(self) -> str | None:
        """The store's directory; ``None`` is in RAM."""
        return self._path

    # ------------------------------------------------------------------ writing

    def add(
        self,
        text: str,
        *,
        tier: str = "semantic",
        importance: float = 0.5,
        session: str | None = None,
        about: str | None = None,
        source: str = "user",
        trust: float = 1.0,
        tags: Sequence[str] = (),
        labels: Sequence[str] = (),
        private: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        vector: npt.NDArray[np.float32] | None = None,
        created_at: TimeLike = None,
        expires_at: TimeLike = None,
        half_life: float | None = None,
        pinned: bool = False,
        derived_from: Sequence[str] = (),
        idempotency_key: str | None = None,
        now: TimeLike = None,
    ) -> AddedId:
        """Add a memory, or reinforce the one that says the same in the same tier, session and subject.

        Told again, a memory keeps what it has: the greater importance and the later end hold, labels add up; metadata,
        tags, private fields and vector of the repeat are not taken over (:meth:`update` changes them).

        Parameters
        ----------
        text
            What it says; 64 KiB of UTF-8 at most.
        tier
            ``"working"``, ``"episodic"``, ``"semantic"`` or ``"procedural"``.
        importance
            0 (trivia) to 1 (vital); also decides how slowly it fades.
        session
            The session it was said in.
        about
            Whom or what it concerns; ``None`` is general.
        source
            ``"user"``, ``"assistant"``, ``"tool"``, ``"system"`` or ``"import"``.
        trust
            0 (hearsay) to 1 (certain).
        tags
            Free words to filter by.
        labels
            Privacy classes, as ``"health"``; the memory is hidden from readers without a grant for each.
        private
            Fields, as a phone number, that stay masked unless granted.
        metadata
            A JSON object to filter by.
        vector
            Its embedding, float32 ``(d,)``, in place of the embedder's.
        created_at
            When it was said; ``None`` is now.
        expires_at
            When it ends; ``None`` is never.
        half_life
            Seconds until half is forgotten; ``None`` follows tier and importance, infinity never decays.
        pinned
            Never decays, is never cleaned up.
        derived_from
            Ids of the memories it was made from.
        idempotency_key
            Makes a retry of the same call safe: the second one changes nothing and gives the first one's id.
        now
            The time of the call.

        Returns
        -------
        AddedId
            The id, with ``created``, ``reinforced`` and ``redactions``.

        Raises
        ------
        InvalidInput
            Naming the argument and the value; the store is unchanged.

        Examples
        --------
        >>> mem = TierMemory.open()
        >>> first = mem.add("Prefers tea", importance=0.7)
        >>> again = mem.add("Prefers tea")
        >>> first.created, again.reinforced, again == first
        (True, True, True)
        """
        fields = {
            "tier": tier,
            "importance": importance,
            "session": session,
            "about": about,
            "source": source,
            "trust": trust,
            "tags": tags,
            "labels": labels,
            "private": private,
            "metadata": metadata,
            "created_at": created_at,
            "expires_at": expires_at,
            "half_life": half_life,
            "pinned": pinned,
            "derived_from": derived_from,
            "idempotency_key": idempotency_key,
        }
        moment = to_seconds(now, "now")
        vectors = None if vector is None else one_vector("vector", vector)[np.newaxis]
        try:
            return self._add_chunk([text], plain(fields), {}, vectors, moment)[0]
        except InvalidInput as error:
            if vector is not None and type(error) is InvalidInput and error.argument == "vectors":
                raise InvalidInput.of("vector", str(error).removeprefix("vectors: ")) from None
            raise

    def add_many(
        self,
        /,
        items: Iterable[str | Mapping[str, Any] | MemoryItem],
        *,
        vectors: npt.NDArray[np.float32] | None = None,
        now: TimeLike = None,
        **defaults: Any,
    ) -> list[AddedId]:
        """Add many memories; each chunk of 4,096 is one commit, all of it or nothing.

        Parameters
        ----------
        items
            Texts, dicts of the arguments of :meth:`add`, or :class:`tiermem_fast.MemoryItem`.
        vectors
            Their embeddings, float32 ``(n, d)``, C-contiguous, in place of the embedder's.
        now
            The time of the call.
        **defaults
            Any argument of :meth:`add`, for all items that do not say otherwise.

        Returns
        -------
        list of AddedId
            In the order of the items.

        Raises
        ------
        InvalidInput
            Naming the item, the argument and the value. ``error.added`` has the ids of the chunks that were written
            before; nothing of the chunk with the fault is.

        Examples
        --------
        >>> mem = TierMemory.open()
        >>> ids = mem.add_many(["Likes jazz", {"text": "Has a dog", "importance": 0.8}], about="Anna")
        >>> [item.about for item in mem.list()], len(ids)
        (['Anna', 'Anna'], 2)
        """
        moment = to_seconds(now, "now")
        added: list[AddedId] = []
        start = 0
        try:
            refuse_unknown(defaults, FIELDS)
            shared = plain(defaults)
            texts, columns = columns_of(items, shared)
            if vectors is not None:
                check_matrix(vectors, len(texts))
            for start in range(0, len(texts), CHUNK):
                stop = min(start + CHUNK, len(texts))
                part = {name: values[start:stop] for name, values in columns.items()}
                some = None if vectors is None else vectors[start:stop]
                added += self._add_chunk(texts[start:stop], shared, part, some, moment)
        except TiermemError as fault:
            error = at_place(fault, start) if isinstance(fault, InvalidInput) else fault
            error.added = added  # type: ignore[attr-defined]  # says exactly which items are in
            if start:
                error.add_note(f"the {start} items before items[{start}] are stored")
            raise error from None
        return added

    def _add_chunk(
        self,
        texts: list[str],
        shared: dict[str, Any],
        columns: dict[str, list[Any]],
        vectors: npt.NDArray[np.float32] | None,
        moment: float,
        vector_model: str | None = None,
    ) -> list[AddedId]:
        model = None
        if vectors is not None:
            model = self._embedder.model_id if self._embedder is not None else vector_model or _EXTERNAL
        elif self._embedder is not None and texts:
            check_texts(texts)
            vectors, model = self._embedder.embed(texts, kind="document"), self._embedder.model_id
        ids, outcomes = self._engine.add(texts, shared, columns, vectors, model, moment)
        return [
            AddedId(id, created=outcome == 1, reinforced=outcome == 2)
            for id, outcome in zip(ids, outcomes.tolist(), strict=True)
        ]

    def update(self, /, id: str, *, now: TimeLike = None, **fields: Any) -> None:
        """Change fields of a memory. Its text stays; :meth:`supersede` says it anew.

        Parameters
        ----------
        id
            Which.
        now
            The time of the call.
        **fields
            Any of ``tier, importance, session, about, source, trust, tags, labels, private, metadata, expires_at,
            half_life, pinned``.

        Raises
        ------
        MemoryNotFound
            If no living memory has the id.
        InvalidInput
            Naming the field and the value; the memory is unchanged.

        Examples
        --------
        >>> mem = TierMemory.open()
        >>> id = mem.add("Prefers tea")
        >>> mem.update(id, importance=0.9, tags=["drinks"])
        >>> mem.get(id).importance, mem.get(id).version
        (0.9, 2)
        """
        if "text" in fields:
            raise InvalidInput.of(
                "text", "a text is not changed in place; supersede(id, text) keeps the old one readable"
            )
        refuse_unknown(fields, PATCHABLE)
        self._engine.update(id, plain(fields), to_seconds(now, "now"))

    def supersede(
        self,
        /,
        id: str,
        text: str,
        *,
        vector: npt.NDArray[np.float32] | None = None,
        now: TimeLike = None,
        **fields: Any,
    ) -> AddedId:
        """Put a new memory in the place of an old one, which stays readable by its id.

        Parameters
        ----------
        id
            The old one.
        text
            What holds now.
        vector
            The new one's embedding, float32 ``(d,)``, in place of the embedder's.
        now
            The time of the call.
        **fields
            What else is different; the rest is as in the old one.

        Returns
        -------
        AddedId
            The new id.

        Raises
        ------
        MemoryNotFound
            If no living memory has the id.

        Examples
        --------
        >>> mem = TierMemory.open()
        >>> old = mem.add("Lives in Bonn", about="Anna")
        >>> new = mem.supersede(old, "Lives in Oslo")
        >>> mem.get(old).superseded_by == new, mem.search("where does Anna live").texts, mem.get(new).about
        (True, ['Lives in Oslo'], 'Anna')
        """
        refuse_unknown(fields, PATCHABLE)
        model = None
        if vector is not None:
            vector = one_vector("vector", vector)
            model = self._embedder.model_id if self._embedder is not None else _EXTERNAL
        elif self._embedder is not None:
            check_texts([text])
            vector, model = self._embedder.embed([text], kind="document")[0], self._embedder.model_id
        new_id = self._engine.supersede(id, text, plain(fields), vector, model, to_seconds(now, "now"))
        return AddedId(new_id, created=True, reinforced=False)

    def forget(self, ids: str | Iterable[str], *, now: TimeLike = None) -> None:
        """Hide memories at once; :meth:`restore` brings them back.

        Raises
        ------
        MemoryNotFound
            If one of them does not live; then none is hidden.

        Examples
        --------
        >>> mem = TierMemory.open()
        >>> id = mem.add("Prefers tea")
        >>> mem.forget([id])
        >>> mem.count()
        0
        >>> mem.restore([id])
        >>> mem.count()
        1
        """
        self._engine.forget(ids_of(ids), to_seconds(now, "now"))

    def restore(self, ids: str | Iterable[str], *, now: TimeLike = None) -> None:
        """Bring forgotten memories back; all of them or, on an error, none."""
        self._engine.restore(ids_of(ids), to_seconds(now, "now"))

    def erase(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        session: str | None = None,
        where: Mapping[str, Any] | None = None,
        everything: bool = False,
        cascade: Literal["derived", "all"] = "derived",
        progress: Callable[[str], object] | None = None,
        now: TimeLike = None,
    ) -> ErasureReceipt:
        """Erase memories from every table and every file of the store, for good, and look for what might be left.

        What was made from erased memories alone goes with them, as does what was folded into them as a duplicate. What was
        made from others as well, and the versions before and after an erased one, are listed in the receipt to be looked
        at. Histories, idempotency keys and what could be undone go too. Then every byte of every file in the store's
        directory is searched for the erased texts and vectors.

        A call that is cut short is completed by the next :meth:`open`. Other writers wait meanwhile and searches go on; the
        columns and indexes in RAM are made anew, which takes as long as opening the store.

        Parameters
        ----------
        ids
            These memories, in any state.
        session
            All of this session. With ``where`` too, what meets both.
        where
            All that meet these conditions, as in :meth:`search`, whoever may read them.
        everything
            All memories of the store.
        cascade
            ``"all"`` also erases what would be listed to be looked at.
        progress
            Hears each step that is done: ``"rows"``, ``"log"``, ``"picture"``, ``"derived"``, ``"scan"``, ``"receipt"``.
            What it raises is raised once the erasure is done.
        now
            The time of the call.

        Returns
        -------
        ErasureReceipt
            What went, what was searched, what was found: nothing, if ``receipt.complete``.

        Raises
        ------
        MemoryNotFound
            If one of the ids is not there; then none is erased.
        InvalidInput
            If nothing is named, or more than one of ``ids``, ``everything`` and the conditions.

        Examples
        --------
        >>> mem = TierMemory.open()
        >>> _ = mem.add_many(["Her number is 555-0100", "Likes jazz"], session="s1")
        >>> receipt = mem.erase(session="s1")
        >>> receipt.erased, receipt.complete, mem.count()
        (2, True, 0)
        """
        from .models import ErasureReceipt

        conditions = {"session": session, "where": where}
        named = [ids is not None, any(value is not None for value in conditions.values()), bool(everything)]
        if sum(named) != 1:
            raise InvalidInput.of("erase", "name one of ids, everything, or the conditions session and where")
        if session is not None and not session:
            raise InvalidInput.of("session", f"{shown(session)} names no session")
        if where is not None and not where:
            raise InvalidInput.of("where", "{} would mean every memory; say everything=True for that")
        if cascade not in {"derived", "all"}:
            raise InvalidInput.of("cascade", f"{shown(cascade)} is neither 'derived' nor 'all'")
        scope = "ids" if ids is not None else "everything" if everything else "where" if session is None else "session"
        receipt = self._engine.erase(
            scope,
            None if ids is None else ids_of(ids),
            filters_of(**conditions),
            cascade == "all",
            progress,
            to_seconds(now, "now"),
        )
        if self._embedder is not None:
            from .embedding import forget_words

            forget_words()
        return ErasureReceipt.from_native(receipt)

    def erasures(self) -> builtins.list[ErasureReceipt]:
        """The receipts of all erasures, oldest first; they hold nothing of what was erased."""
        from .models import ErasureReceipt

        return [ErasureReceipt.from_native(receipt) for receipt in self._engine.erasures()]

    def used(self, items: Any, *, now: TimeLike = None) -> None:
        """Note that memories were used: cited, accepted, acted upon. Being returned is not use.

        Parameters
        ----------
        items
            A :class:`tiermem_fast.Briefing`, its items, hits, memories or ids.
        now
            The time of the use.

        Raises
        ------
        MemoryNotFound
            If one of them does not live; then none is reinforced.

        Examples
        --------
        >>> mem = TierMemory.open()
        >>> id = mem.add("Prefers tea", now=0.0)
        >>> mem.used(mem.search("tea", now=86_400.0), now=86_400.0)
        >>> mem.get(id).use_count
        1
        """
        self._engine.used(ids_of(items), to_seconds(now, "now"))

    # ------------------------------------------------------------------ reading

    def get(self, id: str, *, grant: Grant | None = None, now: TimeLike = None) -> MemoryItem:
        """The memory with this id; one that was superseded or merged can be read too.

        Raises
        ------
        MemoryNotFound
            If there is none, or it is forgotten or expired.
        AccessDenied
            If it carries a label that was not granted.
        """
        from .models import MemoryItem

        rows = self._engine.get([id], rights_of(grant), to_seconds(now, "now"))
        return MemoryItem.from_row(rows[0])

    def search(
        self,
        query: str = "",
        *,
        k: int = 5,
        tiers: str | Sequence[str] | None = None,
        session: str | None = None,
        about: str | None = None,
        where: Mapping[str, Any] | None = None,
        must: str | Sequence[str] | None = None,
        min_trust: float | None = None,
        grant: Grant | None = None,
        vector: npt.NDArray[np.float32] | None = None,
        min_score: float | None = None,
        now: TimeLike = None,
    ) -> Hits:
        """The k best memories that match at all.

        Text searches by keywords and, with an embedder, by meaning; ``vector`` alone searches by meaning.

        Parameters
        ----------
        query
            The question.
        k
            Results at most, 1 to 10,000.
        tiers
            Only these tiers.
        session
            Only this session.
        about
            What is about this subject or about nobody in particular.
        where
            Conditions that all hold: ``{"project": "q3"}`` on metadata, by dotted path, or on a field (``tier, session,
            about, tags, labels, source, trust, importance, created_at, last_used_at, expires_at, use_count, pinned``;
            ``since`` and ``until`` bound ``created_at``). A value may be a list (any of), or a dict of ``eq, ne, in,
            not_in, exists, gt, gte, lt, lte``.
        must
            Words that occur in each result.
        min_trust
            Least trust.
        grant
            What the reader may see beyond the public: ``{"labels": [...], "fields": [...]}``.
        vector
            The question's embedding, float32 ``(d,)``, in place of the embedder's.
        min_score
            Least score.
        now
            The time of the question: strength is computed for it.

        Returns
        -------
        Hits
            Best first.

        Raises
        ------
        InvalidInput
            Naming the argument and the value.

        Examples
        --------
        >>> mem = TierMemory.open()
        >>> _ = mem.add_many([{"text": "季度报告用蓝色模板", "metadata": {"project": "q3"}}, "喝茶不喝咖啡"])
        >>> mem.search("报告 模板", where={"project": "q3"}).texts
        ['季度报告用蓝色模板']
        """
        moment = to_seconds(now, "now")
        model = None
        if vector is not None:
            vector = one_vector("vector", vector)
            model = self._embedder.model_id if self._embedder is not None else _EXTERNAL
        elif self._embedder is not None and isinstance(query, str) and query.strip():
            check_texts([query], "query")
            vector, model = self._embedder.embed([query], kind="query")[0], self._embedder.model_id
        least = number_or_none("min_score", min_score)
        filters = filters_of(tiers=tiers, session=session, about=about, where=where, must=must, min_trust=min_trust)
        rights = rights_of(grant)
        native = self._engine.search(query, vector, model, whole_number("k", k, 1), filters, least, rights, moment)
        engine = self._engine
        return Hits(native, engine.texts, lambda ids: engine.get(ids, rights, moment))

    def list(
        self,
        *,
        tiers: str | Sequence[str] | None = None,
        session: str | None = None,
        about: str | None = None,
        where: Mapping[str, Any] | None = None,
        must: str | Sequence[str] | None = None,
        limit: int = 100,
        after: str | None = None,
        newest_first: bool = False,
        grant: Grant | None = None,
        now: TimeLike = None,
    ) -> builtins.list[MemoryItem]:
        """Memories in the order of writing.

        Parameters
        ----------
        tiers, session, about, where, must, grant, now
            As in :meth:`search`.
        limit
            So many at most, 0 to 10,000.
        after
            Go on after the memory with this id: the last one of the page before.
        newest_first
            Latest written first.

        Examples
        --------
        >>> mem = TierMemory.open()
        >>> ids = mem.add_many(["one", "two", "three"])
        >>> [item.text for item in mem.list(limit=2)], [item.text for item in mem.list(after=ids[1])]
        (['one', 'two'], ['three'])
        """
        from .models import MemoryItem

        filters = filters_of(tiers=tiers, session=session, about=about, where=where, must=must)
        rows = self._engine.list(
            filters, whole_number("limit", limit, 0), after, newest_first, rights_of(grant), to_seconds(now, "now")
        )
        return [MemoryItem.from_row(row) for row in rows]

    def count(
        self,
        *,
        tiers: str | Sequence[str] | None = None,
        session: str | None = None,
        about: str | None = None,
        where: Mapping[str, Any] | None = None,
        must: str | Sequence[str] | None = None,
        grant: Grant | None = None,
        now: TimeLike = None,
    ) -> int:
        """How many memories live. Conditions in ``where`` and ``must`` see only what the reader may see."""
        filters = filters_of(tiers=tiers, session=session, about=about, where=where, must=must)
        return self._engine.count(filters, rights_of(grant), to_seconds(now, "now"))

    def history(self, id: str) -> builtins.list[dict[str, Any]]:
        """What happened to a memory in any state, oldest first.

        Returns
        -------
        list of dict
            ``at`` (datetime), ``kind``, ``actor`` (who did it) and ``detail`` of each change. Kinds are ``created,
            told_again, update, supersede, forget, restore, promote, merge, let_go``. An update says which fields it
            changed, and not what they hold.

        Raises
        ------
        MemoryNotFound
            If there is none, or it was erased.

        Examples
        --------
        >>> mem = TierMemory.open()
        >>> id = mem.add("Prefers tea", now=0.0)
        >>> mem.update(id, importance=0.9, now=60.0)
        >>> [(entry["kind"], entry["actor"], entry["at"].minute) for entry in mem.history(id)]
        [('created', 'user', 0), ('update', 'owner', 1)]
        """
        from .times import from_seconds

        return [
            {**event, "at": from_seconds(event["at"]), "detail": json.loads(event["detail"] or "null")}
            for event in self._engine.history(id)
        ]

    def sql(self, statement: str, *, limit: int = 10_000) -> builtins.list[dict[str, Any]]:
        """Rows of a ``select`` over the store's own tables, through the store's own connection.

        Never open the file with another SQLite library in the same process: closing that one drops this one's locks.
        """
        names, rows = self._engine.sql(statement, whole_number("limit", limit, 0))
        return [dict(zip(names, row, strict=True)) for row in rows]

    # ------------------------------------------------------------------ briefing

    def brief(
        self,
        query: str,
        *,
        task: str | None = None,
        session: str | None = None,
        about: str | None = None,
        budget: int | None = None,
        grant: Grant | None = None,
        count_tokens: TokenCounter | None = None,
        now: TimeLike = None,
    ) -> Briefing:
        """What goes into the next prompt: the tiers in order, within a token budget, each line with its origin.

        Parameters
        ----------
        query
            What the prompt is about.
        task
            The type of task: procedural memories whose metadata say another ``task`` stay out.
        session
            The session at hand: its working memory and its latest episodes go in whatever they say.
        about
            Whom or what it concerns; what is known of somebody else stays out.
        budget
            Tokens at most; ``None`` is the configuration's 1,200.
        grant
            As in :meth:`search`.
        count_tokens
            Counts the tokens of a text; ``None`` estimates, at about one token a Chinese character.
        now
            The time of the call.

        Returns
        -------
        Briefing
            ``text``, ``items``, ``dropped`` with reasons, ``tokens``; empty when nothing is relevant.

        Examples
        --------
        >>> mem = TierMemory.open(config={"id_seed": 1})
        >>> _ = mem.add("Replies to Director Li stay formal", about="Director Li", now=0.0)
        >>> print(mem.brief("Write a formal reply to Director Li", about="Director Li", now=0.0).text)
        ## Known facts
        - Replies to Director Li stay formal [m:89025cc1] (user, 1 Jan 1970, about Director Li)
        >>> mem.brief("How tall is Mont Blanc?", now=0.0).text
        ''
        """
        from .policy.briefing import BriefingRules, draft_briefing
        from .policy.tokens import estimate_tokens

        if not isinstance(query, str):
            raise InvalidInput.of("query", f"must be a str, not {type(query).__name__}")
        moment = to_seconds(now, "now")
        settings = {} if self._config is None else self._config.briefing.model_dump()
        allowed = settings.pop("budget", 1_200) if budget is None else budget
        settings.pop("budget", None)
        if settings.get("min_relevance") is None:
            settings["min_relevance"] = LEAST_RELEVANCE
        rules = BriefingRules(**settings)
        candidates, rows, faint = self._candidates(query, task, session, about, grant, rules, moment)
        draft = draft_briefing(
            candidates,
            query=query,
            now=moment,
            budget=allowed,
            task=task,
            session=session,
            about=about,
            count=count_tokens or estimate_tokens,
            rules=rules,
        )
        from .models import MemoryItem

        draft = replace(draft, dropped=draft.dropped + faint)
        return draft.as_briefing({item.id: MemoryItem.from_row(rows[item.id]) for item in draft.items})

    def _candidates(
        self,
        query: str,
        task: str | None,
        session: str | None,
        about: str | None,
        grant: Grant | None,
        rules: Any,
        moment: float,
    ) -> tuple[builtins.list[Candidate], dict[str, dict[str, Any]], tuple[DroppedCandidate, ...]]:
        """What may go into a briefing, of all tiers, with the rows behind it, and what is too faint for it."""
        rights = rights_of(grant)
        rows: dict[str, dict[str, Any]] = {}
        found: dict[str, Candidate] = {}
        faint: tuple[DroppedCandidate, ...] = ()

        def listed(tier: str, in_session: str | None, limit: int, why: str) -> None:
            conditions = {"session": in_session} if in_session is not None else {"where": {"session": None}}
            filters = filters_of(tiers=tier, about=about, **conditions)
            for row in self._engine.list(filters, limit, None, True, rights, moment):
                rows[row["id"]] = row
                found[row["id"]] = _candidate(row, why=why)

        listed("working", session, 10_000, "in working memory")
        if session is not None:
            listed("episodic", session, rules.episodic_window, "said lately in this session")
        for row in self._engine.list(filters_of(tiers="procedural", about=about), 10_000, None, True, rights, moment):
            wanted = json.loads(row["metadata"] or "{}").get("task")
            if task is not None and (wanted == task or (isinstance(wanted, list) and task in wanted)):
                rows[row["id"]] = row
                found[row["id"]] = _candidate(row, why=f"a rule for the task {task}")
        if isinstance(query, str) and query.strip():
            found_now, faint = self._found(query, about, grant, rules, moment)
            for row, relevance in found_now:
                if row["id"] not in found:
                    rows[row["id"]] = row
                    found[row["id"]] = _candidate(
                        row,
                        relevance=relevance,
                        score=row["score"],
                        strength=row["strength"],
                        why="answers the question",
                    )
        return list(found.values()), rows, tuple(one for one in faint if one.id not in found)

    def _found(
        self, query: str, about: str | None, grant: Grant | None, rules: Any, moment: float
    ) -> tuple[builtins.list[tuple[dict[str, Any], float]], tuple[DroppedCandidate, ...]]:
        """What answers the question, with its relevance, and what is too faint to be read from disk at all."""
        from .policy.briefing import DroppedCandidate
        from .tiers import DropReason

        hits = self.search(query, k=_SEARCHED, tiers=_SEARCHED_TIERS, about=about, grant=grant, now=moment)
        relevance = relevance_of(hits.vector_scores, hits.keyword_scores, floor=self._relevance_floor())
        least = max(rules.min_relevance, rules.min_share_of_best * float(relevance.max(initial=0.0)))
        clear = (relevance >= least).nonzero()[0].tolist()
        faint = tuple(
            DroppedCandidate(id, DropReason.BELOW_THRESHOLD, f"relevance {value:.2f} is under {least:.2f}")
            for id, value in zip(hits.ids, relevance.tolist(), strict=True)
            if value < least
        )
        values = relevance.tolist()
        return [(row, values[place]) for row, place in zip(hits.rows(clear), clear, strict=True)], faint

    def _relevance_floor(self) -> float:
        """The cosine that counts as no relevance at all with this store's embedder."""
        if self._floor is None:
            self._floor = 0.0 if self._embedder is None else calibrate(self._embedder)
        return self._floor

    # ------------------------------------------------------------------ files

    def snapshot(
        self,
        file: str | os.PathLike[str],
        *,
        vectors: bool = True,
        progress: Progress | None = None,
        now: TimeLike = None,
    ) -> SnapshotReport:
        """Write the whole store into one portable file, as it is at one commit; others may write meanwhile.

        The file holds every memory in whatever state with its private fields, history, links and idempotency keys:
        it is as confidential as the store. It appears when it is whole, in the place of one that is there. This store
        remembers where it is, so that :meth:`erase` can name it.

        Parameters
        ----------
        file
            Where.
        vectors
            Without them the file is smaller, and what is restored from it is found by keywords.
        progress
            Called with the memories written and those in all.
        now
            The time of the call.

        Returns
        -------
        SnapshotReport
            What is in it, and its digest.

        Raises
        ------
        StorageError
            If the file cannot be written; nothing of it is left then.
        CorruptStore
            If a memory is damaged; the error names it.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> mem = TierMemory.open()
        >>> id = mem.add("Prefers tea", now=0.0)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     report = mem.snapshot(Path(directory, "x.tiermem"), now=0.0)
        ...     copy = TierMemory.from_snapshot(report.path)
        >>> report.memories, copy.get(id) == mem.get(id)
        (1, True)
        """
        from .files import as_path
        from .snapshot import write_snapshot

        moment = to_seconds(now, "now")
        path = as_path("file", file)
        export = self._engine.export(vectors, moment)
        try:
            library = _core.build_info()["version"]
            report = write_snapshot(export, path, library=library, written_at=moment, progress=progress)
        finally:
            export.close()
        if not self._read_only:
            # An erasure names the copies that may still hold what it took.
            with suppress(ReadOnlyStore):
                self._engine.remember_copy(path.resolve(), report.commit, moment)
        return report

    @classmethod
    def from_snapshot(
        cls,
        file: str | os.PathLike[str],
        path: str | os.PathLike[str] | None = None,
        *,
        embedder: Any = None,
        config: Config | Mapping[str, Any] | None = None,
        durability: Literal["full", "normal", "memory"] | None = None,
        allow_network: bool = False,
        progress: Progress | None = None,
        now: TimeLike = None,
    ) -> Self:
        """Make a store of a snapshot and open it. The file is read whole and verified before anything is made.

        Parameters
        ----------
        file
            The snapshot.
        path
            The directory of the new store, not there yet or empty; ``None`` is a store in RAM.
        embedder, config, durability, allow_network, now
            As in :meth:`open`.
        progress
            Called with the memories restored and those in all.

        Raises
        ------
        InvalidInput
            If the file is no snapshot, or the directory is taken.
        NewerFormat
            If a later version of this library wrote it.
        CorruptStore
            If it is damaged. Nothing was made or changed then.
        ModelMismatch
            If its vectors are from another embedder.
        """
        from .files import as_path, new_directory, refuse_taken
        from .snapshot import opened

        moment = to_seconds(now, "now")
        source = as_path("file", file)
        from_config = as_config(config)
        options = {} if from_config is None else from_config.flat()
        if durability is not None:
            options["durability"] = durability
        chosen = None if embedder is None else _embedder(embedder)
        target = None if path is None or options.get("durability") == "memory" else as_path("path", path)
        with opened(source) as snapshot:
            if target is not None:
                refuse_taken(target)
            header = snapshot.verify()
            if chosen is not None and header["model"] not in {None, chosen.model_id}:
                raise _other_model(header["model"], header["dimension"], chosen)
            known = {"created_at": header["created_at"], "model": header["model"], "dimension": header["dimension"]}
            if target is None:
                filled = _core.Import.begin(None, options, allow_network=allow_network, **known, now=moment)
                snapshot.restore(filled, now=moment, progress=progress)
                mem = cls(filled.engine(), path=None, embedder=chosen, config=from_config, read_only=False)
            else:
                with new_directory(target) as directory:
                    # Synced once, when it is closed: until then nobody has been told of it.
                    quick = {**options, "durability": "normal"}
                    filled = _core.Import.begin(directory, quick, allow_network=allow_network, **known, now=moment)
                    try:
                        snapshot.restore(filled, now=moment, progress=progress)
                    finally:
                        filled.close()
                mem = cls.open(
                    target,
                    embedder=chosen,
                    config=from_config,
                    durability=durability,
                    allow_network=allow_network,
                    now=moment,
                )
        # The file holds what the store holds.
        engine = mem._engine  # noqa: SLF001  # of this very class
        engine.remember_copy(source.resolve(), engine.stats(moment)["commit"], moment)
        return mem

    def export_jsonl(
        self,
        file: Any,
        *,
        where: Mapping[str, Any] | None = None,
        grant: Grant | None = None,
        vectors: bool = False,
        now: TimeLike = None,
    ) -> int:
        """Write the living memories that a reader may see, one a line, as JSON in the fields of a memory.

        Parameters
        ----------
        file
            A path, whose file appears when it is whole, or a file open for writing.
        where
            Which, as in :meth:`search`.
        grant
            What the reader may see: memories with other labels are left out, other private fields masked.
        vectors
            Also write each memory's ``vector`` and its ``vector_model``.
        now
            The time of the call.

        Returns
        -------
        int
            The lines written. What is written or changed meanwhile by others may or may not be in them.

        Examples
        --------
        >>> import io
        >>> mem = TierMemory.open()
        >>> _ = mem.add_many(["Prefers tea", "喝茶不喝咖啡"])
        >>> lines = io.StringIO()
        >>> mem.export_jsonl(lines), TierMemory.open().import_jsonl(io.StringIO(lines.getvalue())).created
        (2, 2)
        """
        from .jsonl import export_lines

        moment = to_seconds(now, "now")
        known = self._engine.model()
        pages = self._pages(filters_of(where=where), rights_of(grant), vectors, moment)
        return export_lines(file, pages, model=None if known is None else known[0])

    def _pages(
        self, filters: dict[str, Any], rights: dict[str, Any] | None, with_vectors: bool, moment: float
    ) -> Iterator[tuple[MemoryItem, npt.NDArray[np.float16] | None]]:
        from .models import MemoryItem

        before: builtins.list[str] = []
        while rows := self._page_after(before, filters, rights, moment):
            found: builtins.list[bytes | None] = [None] * len(rows)
            if with_vectors:
                found = self._engine.vectors([row["id"] for row in rows], rights, moment)
            for row, halves in zip(rows, found, strict=True):
                yield MemoryItem.from_row(row), None if halves is None else np.frombuffer(halves, np.dtype("<f2"))
            before = [row["id"] for row in rows]

    def _page_after(
        self, before: Sequence[str], filters: dict[str, Any], rights: dict[str, Any] | None, moment: float
    ) -> builtins.list[dict[str, Any]]:
        """The page after these memories, or after the last of them that was not erased meanwhile."""
        for place, after in enumerate(reversed(before), 1):
            try:
                return self._engine.list(filters, _PAGE, after, False, rights, moment)
            except MemoryNotFound:
                if place == len(before):
                    raise
        return self._engine.list(filters, _PAGE, None, False, rights, moment)

    def import_jsonl(
        self,
        file: Any,
        *,
        on_error: Literal["raise", "skip"] = "raise",
        progress: Progress | None = None,
        now: TimeLike = None,
    ) -> ImportReport:
        r"""Add memories from a file of JSON lines, as :meth:`export_jsonl` writes them or with ``text`` alone.

        Each line is a memory told again: it gets an id of its own, starts with no uses, and reinforces a memory that
        says the same. Times, tier, source, tags and the other fields of :meth:`add` are kept, a field that is not
        there is as in :meth:`add`.

        Parameters
        ----------
        file
            A path, or a file open for reading.
        on_error
            ``"raise"``: the first line at fault ends it, and those before it are stored. ``"skip"``: lines at fault
            are reported and left out.
        progress
            Called with the bytes read and those in all, 0 when that is not known.
        now
            The time of the call.

        Returns
        -------
        ImportReport
            How many lines were read, created, reinforced, and which were skipped, why.

        Raises
        ------
        InvalidInput
            Naming the line and the field; ``error.line`` is its number, ``error.report`` what was done before.

        Examples
        --------
        >>> import io
        >>> mem = TierMemory.open()
        >>> lines = io.StringIO('{"text": "Prefers tea", "tags": ["drinks"]}\n{"txt": "?"}\n')
        >>> report = mem.import_jsonl(lines, on_error="skip")
        >>> print(report, *report.skipped)
        read 2, created 1, reinforced 0, skipped 1 line=2 reason='text: is needed'
        """
        from .jsonl import import_lines

        moment = to_seconds(now, "now")

        def add(
            items: Sequence[dict[str, Any]], vectors: npt.NDArray[np.float32] | None, model: str | None
        ) -> Sequence[AddedId]:
            if vectors is not None and self._embedder is not None and model not in {None, self._embedder.model_id}:
                raise _other_model(str(model), vectors.shape[1], self._embedder)
            told = [{name: item[name] for name in item if name in FIELDS or name == "text"} for item in items]
            texts, columns = columns_of(told, {})
            return self._add_chunk(texts, {}, columns, vectors, moment, model)

        return import_lines(file, add, self._ids_known, on_error=on_error, progress=progress)

    def _ids_known(self, ids: Sequence[str]) -> set[str]:
        known = set()
        for id in ids:
            try:
                self._engine.history(id)
            except MemoryNotFound:
                continue
            known.add(id)
        return known

    # ------------------------------------------------------------------ upkeep

    def stats(self, *, now: TimeLike = None) -> Stats:
        """What the store holds and how it serves it."""
        from .models import Stats

        figures = self._engine.stats(to_seconds(now, "now"))
        tiers: dict[str, dict[str, int]] = figures["tiers"]
        by_vector = figures["model_id"] is not None or self._embedder is not None
        embeds = self._embedder is not None
        return Stats(
            path=self._path,
            durability=self._durability(),
            read_only=self._read_only,
            commit=figures["commit"],
            alive=sum(tier["alive"] for tier in tiers.values()),
            forgotten=sum(tier["forgotten"] for tier in tiers.values()),
            superseded=sum(tier["superseded"] for tier in tiers.values()),
            merged=sum(tier["merged"] for tier in tiers.values()),
            tiers={Tier(name): tier["alive"] for name, tier in tiers.items()},
            model_id=figures["model_id"],
            dimension=figures["dimension"],
            search="hybrid" if by_vector and embeds else "keywords, vectors when given" if by_vector else "keywords",
            vectors=figures["vectors"],
            graph=figures["graph_nodes"],
            tail=figures["vectors_waiting"],
            damaged=dict(figures["damaged"]),
            warnings=tuple(figures["warnings"]),
            ram_bytes=figures["vector_bytes"] + figures["keyword_bytes"] + figures["column_bytes"],
            disk_bytes=figures["disk_bytes"],
        )

    def _durability(self) -> str:
        if self._path is None:
            return "memory"
        return "full" if self._config is None else self._config.durability

    def maintain(self, *, now: TimeLike = None) -> MaintenanceReport:
        """Write pending uses and let the vector graph take in what was added since.

        Works in small slices, so searches go on meanwhile and Ctrl-C stops between two; what is not absorbed is found by
        scanning, exactly but more slowly.
        """
        from .models import MaintenanceReport

        moment = to_seconds(now, "now")
        if not self._read_only:
            self._engine.complete_erasure(moment)
        absorbed = flushed = 0
        left: int | None = None
        while True:
            some_flushed, some_absorbed, waiting = self._engine.maintain(_ABSORB_STEP, moment)
            flushed += some_flushed
            absorbed += some_absorbed
            if waiting in (0, left):
                return MaintenanceReport(absorbed=absorbed, tail=waiting, flushed=flushed, finished=waiting == 0)
            left = waiting

    def compact(self, *, hidden_for_days: float = 0.0, now: TimeLike = None) -> CompactReport:
        """Let go for good of what was forgotten or folded into another memory, and write the file anew.

        What is let go can no longer be restored. Superseded memories stay readable. Unlike :meth:`erase` this follows
        nothing and looks for nothing. It takes as much memory as the file is large.

        Parameters
        ----------
        hidden_for_days
            Only what was hidden at least so many days ago.
        now
            The time of the call.

        Examples
        --------
        >>> mem = TierMemory.open()
        >>> mem.forget(mem.add("Prefers tea", now=1e9), now=1e9)
        >>> mem.compact(hidden_for_days=30, now=1e9 + 60).forgotten, mem.compact(now=1e9 + 60).forgotten
        (0, 1)
        """
        from .models import CompactReport

        moment = to_seconds(now, "now")
        days = number_or_none("hidden_for_days", hidden_for_days)
        if days is None or not 0.0 <= days < 1e6:
            raise InvalidInput.of("hidden_for_days", f"{shown(hidden_for_days)} is not a number of days")
        return CompactReport(**self._engine.compact(max(moment - days * 86_400.0, 0.0), moment))

    # ------------------------------------------------------------------ safety

    def backup(
        self,
        directory: str | os.PathLike[str],
        *,
        progress: Callable[[int, int], object] | None = None,
        now: TimeLike = None,
    ) -> BackupReport:
        """Copy the store as it is now into another directory, while reading and writing go on.

        The copy is read whole and verified before it gets its name; :meth:`open` opens it like any store. This store
        remembers where it is, so that :meth:`erase` can name it.

        Parameters
        ----------
        directory
            Where to; made when missing, refused when it holds a store.
        progress
            Hears how many pages are copied, of how many.
        now
            The time of the call.

        Raises
        ------
        InvalidInput
            If the directory holds a store already.
        CorruptStore
            If something is damaged; a damaged store makes no backup.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, TierMemory.open(folder + "/store") as mem:
        ...     _ = mem.add("Prefers tea")
        ...     report = mem.backup(folder + "/copy")
        ...     with TierMemory.open(folder + "/copy", read_only=True) as copy:
        ...         report.memories, copy.count()
        (1, 1)
        """
        from .models import BackupReport
        from .times import from_seconds

        moment = to_seconds(now, "now")
        path = os.fspath(directory)
        done = self._engine.backup(path, progress, moment)
        return BackupReport(path=os.path.realpath(path), at=from_seconds(moment), **done)

    @classmethod
    def restore_backup(
        cls,
        source: str | os.PathLike[str],
        directory: str | os.PathLike[str],
        *,
        replace: bool = False,
        now: TimeLike = None,
    ) -> BackupReport:
        """Put the store of a backup into a directory. All of it is verified before anything is replaced.

        Parameters
        ----------
        source
            A directory that :meth:`backup` made.
        directory
            Where to.
        replace
            Take the place of a store that is there. Whoever has it open goes on with what was restored.
        now
            The time of the call.

        Raises
        ------
        InvalidInput
            If the directory holds a store and ``replace`` is not given.
        CorruptStore
            If the backup is damaged; then nothing was changed.
        """
        from .models import BackupReport
        from .times import from_seconds

        moment = to_seconds(now, "now")
        path = os.fspath(directory)
        done = _core.restore_backup(os.fspath(source), path, bool(replace), moment)
        return BackupReport(path=os.path.realpath(path), at=from_seconds(moment), **done)

    def verify(self, *, repair: bool = False, discard: bool = False) -> VerifyReport:
        """Read everything and report what is not as it was written, by name.

        Parameters
        ----------
        repair
            Keep every memory that is sound and drop the rest. A memory of which only the vector is damaged stays without
            one. The database is built anew beside the old one and takes its place in one commit.
        discard
            Keep no copy of the damaged file. Without it, ``report.kept_aside`` is where it lies.

        Examples
        --------
        >>> mem = TierMemory.open()
        >>> _ = mem.add("Prefers tea")
        >>> report = mem.verify()
        >>> report.ok, report.sound
        (True, 1)
        """
        from .models import VerifyReport

        return VerifyReport.from_native(self._engine.verify(bool(repair), bool(discard)))

    @classmethod
    def check(
        cls, path: str | os.PathLike[str], *, repair: bool = False, discard: bool = False, now: TimeLike = None
    ) -> VerifyReport:
        """As :meth:`verify`, for a store that may be too damaged to be opened.

        Raises
        ------
        CorruptStore
            If its file does not even tell where its tables lie; a backup is what is left then.
        """
        from .models import VerifyReport

        moment = to_seconds(now, "now")
        return VerifyReport.from_native(_core.check_store(os.fspath(path), bool(repair), bool(discard), moment))

    # ------------------------------------------------------------------ tiers

    def consolidate(self, *, dry_run: bool = False, now: TimeLike = None) -> ConsolidationReport:
        """Move memories between the tiers, fold near-duplicates together, let go of what has come to its end.

        Working memory that lies idle or overflows: the better half becomes episodic, the rest is let go. Episodic
        memory that was used again and again, or said in several sessions, becomes semantic. All in one transaction;
        what is let go can be restored.

        Parameters
        ----------
        dry_run
            Only say what would be done.
        now
            The time of the call.

        Returns
        -------
        ConsolidationReport
            Every memory that moved or went, with the reason.

        Examples
        --------
        >>> mem = TierMemory.open()
        >>> _ = mem.add_many([f"note {n}" for n in range(25)], tier="working", session="s1", now=0.0)
        >>> print(mem.consolidate(now=60.0))
        promoted 8, merged 0, let go 7, expired 0
        """
        from .models import ConsolidationReport, LetGo, Merged, Promoted

        report = self._engine.consolidate(dry_run, to_seconds(now, "now"))
        promoted = [
            Promoted(id=row["id"], from_tier=row["from_tier"], to_tier=row["to_tier"], reason=row["reason"])
            for row in report["promoted"]
        ]
        folded: dict[tuple[str, str], list[str]] = {}
        for row in report["merged"]:
            folded.setdefault((row["into"], row["reason"]), []).append(row["id"])
        merged = [Merged(id=into, absorbed=tuple(ids), reason=reason) for (into, reason), ids in folded.items()]
        gone: dict[bool, list[LetGo]] = {True: [], False: []}
        for row in report["let_go"]:
            ended = row["reason"] == _EXPIRED
            preview = row["text"][:80]
            gone[ended].append(LetGo(id=row["id"], tier=row["from_tier"], reason=row["reason"], preview=preview))
        return ConsolidationReport(
            promoted=tuple(promoted), merged=tuple(merged), let_go=tuple(gone[False]), expired=tuple(gone[True])
        )


_ABSORB_STEP = 256
_PAGE = 1_000
_EXPIRED = "its end has come"


def _embedder(embedder: Any) -> Embedder:
    from .embedding import as_embedder

    return as_embedder(embedder)


def _other_model(stored: str, dimension: int, embedder: Embedder) -> ModelMismatch:
    message = (
        f"the store holds vectors of {stored!r} with {dimension} dimensions, the embedder is "
        f"{embedder.model_id!r}; open it with the first, or without an embedder to search by keywords"
    )
    return ModelMismatch(
        message,
        argument="embedder",
        stored_model=stored,
        stored_dimension=dimension,
        given_model=embedder.model_id,
    )


def _candidate(row: Mapping[str, Any], **found: Any) -> Candidate:
    from .policy.briefing import Candidate
    from .tiers import Source

    return Candidate(
        id=row["id"],
        text=row["text"],
        tier=Tier(row["tier"]),
        source=Source(row["source"]),
        trust=row["trust"],
        about=row["about"],
        session=row["session"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        importance=row["importance"],
        **found,
    )
