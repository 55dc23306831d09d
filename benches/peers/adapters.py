"""One class per library: how a user of it would keep and find memories, by its documentation."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path

import numpy as np
from bench.data import DIMENSION as DIM

from .workload import NUMBER, Item, embed

ADAPTERS: dict[str, type[Adapter]] = {}


class Adapter:
    """One library under test. `filter` is None or {"tag": value}; `search` returns [(n, text)]."""

    name = ""
    packages: list[str] = []  # what a user would pip install
    imports = ""  # the import statement whose cost is reported
    env: dict[str, str] = {}  # set before the import; {dir} stands for the store's folder
    batch = 1000  # memories handed over in one bulk add
    persistent = True  # False: nothing survives the process
    notes = ""

    def __init_subclass__(cls):
        ADAPTERS[cls.name] = cls

    def setup(self, dir: Path):
        """Open the store in dir; make it if dir is empty (so this is `reopen`, too)."""
        raise NotImplementedError

    def add(self, items: list[Item]):
        raise NotImplementedError

    def settle(self):
        """What the system's documentation says to call after a bulk load, if anything."""

    def search(self, vector, text: str, k: int, user: str, filter: dict | None = None) -> list[tuple[int, str]]:
        raise NotImplementedError

    def touch(self, item: Item, importance: float):
        """Change one stored field of one memory."""
        raise NotImplementedError

    def delete(self, user: str):
        raise NotImplementedError

    def close(self):
        """Persist and let go."""

    def disk_bytes(self, dir: Path) -> int:
        return sum(f.stat().st_blocks * 512 for f in dir.rglob("*") if f.is_file())


class TierMem(Adapter):
    name = "tiermem"
    packages = ["tiermem-fast"]
    imports = "from tiermem_fast import TierMemory"
    batch = 4096
    notes = (
        "one store, full durability (every commit synced), session = user; maintain() after load; a memory whose cosine "
        "is not above 0 matches not at all, so fewer than k come back where little is left, and recall counts them missing"
    )

    def setup(self, dir):
        from tiermem_fast import TierMemory

        self.mem = TierMemory.open(dir)

    @staticmethod
    def _fields(i):
        return {"text": i.text, "session": i.user, "tags": [i.tag], "importance": i.importance}

    def add(self, items):
        if len(items) == 1:
            self.mem.add(**self._fields(items[0]), vector=items[0].vec)
        else:
            self.mem.add_many([self._fields(i) for i in items], vectors=np.stack([i.vec for i in items]))

    def settle(self):
        self.mem.maintain()

    def search(self, vector, text, k, user, filter=None):
        where = {"tags": filter["tag"]} if filter else None
        texts = self.mem.search(vector=vector, k=k, session=user, tiers="semantic", where=where).texts
        return [(NUMBER[text], text) for text in texts]

    def touch(self, item, importance):
        if not hasattr(self, "ids"):
            self.ids = {m.text: m.id for m in self._all(item.user)}
        if item.text not in self.ids:
            self.ids.update((m.text, m.id) for m in self.mem.list(session=item.user, limit=5000, newest_first=True))
        self.mem.update(self.ids[item.text], importance=importance)

    def _all(self, user):
        found, after = [], None
        while page := self.mem.list(session=user, limit=5000, after=after):
            found += page
            after = page[-1].id
        return found

    def delete(self, user):
        self.mem.forget([m.id for m in self._all(user)])

    def close(self):
        self.mem.close()


class NumpyFlat(Adapter):
    name = "numpy-flat"
    packages = ["numpy"]
    imports = "import numpy"
    notes = "floor: one matrix per user, exact scan, no index; saved on close"

    def setup(self, dir):
        self.dir = dir
        self.users: dict[str, list] = {}  # user -> [matrix with spare rows, count, ns, tags]
        self.payload: dict[int, tuple] = {}  # n -> (text, importance)
        if (dir / "meta.json").exists():
            meta = json.loads((dir / "meta.json").read_text())
            self.payload = {int(n): tuple(p) for n, p in meta["payload"].items()}
            for i, (user, ns, tags) in enumerate(meta["users"]):
                self.users[user] = [np.load(dir / f"{i}.npy"), len(ns), ns, tags]

    def add(self, items):
        for it in items:
            u = self.users.setdefault(it.user, [np.empty((16, DIM), np.float32), 0, [], []])
            if u[1] == len(u[0]):
                u[0] = np.concatenate([u[0], np.empty_like(u[0])])
            u[0][u[1]] = it.vec
            u[2].append(it.n)
            u[3].append(it.tag)
            self.payload[it.n] = (it.text, it.importance)
            u[1] += 1

    def search(self, vector, text, k, user, filter=None):
        if user not in self.users:
            return []
        matrix, count, ns, tags = self.users[user]
        scores = matrix[:count] @ vector
        if filter:
            scores = np.where(np.fromiter((t == filter["tag"] for t in tags[:count]), bool, count), scores, -2)
        k = min(k, count)
        top = np.argpartition(-scores, k - 1)[:k]
        return [(ns[i], self.payload[ns[i]][0]) for i in top[np.argsort(-scores[top])]]

    def touch(self, item, importance):
        self.payload[item.n] = (item.text, importance)

    def delete(self, user):
        for n in self.users.pop(user)[2]:
            del self.payload[n]

    def close(self):
        for i, (matrix, count, _, _) in enumerate(self.users.values()):
            np.save(self.dir / f"{i}.npy", matrix[:count])
        meta = {"payload": self.payload, "users": [[u, v[2], v[3]] for u, v in self.users.items()]}
        (self.dir / "meta.json").write_text(json.dumps(meta))


class UsearchDict(Adapter):
    name = "usearch-dict"
    packages = ["usearch"]
    imports = "from usearch.index import Index"
    notes = "raw floor: one HNSW index per user and a dict; tag filter by over-fetching; saved on close"

    def setup(self, dir):
        from usearch.index import Index

        self.dir, self.Index = dir, Index
        self.users, self.payload = {}, {}  # user -> index; n -> [text, tag, importance]
        if (dir / "meta.json").exists():
            meta = json.loads((dir / "meta.json").read_text())
            self.payload = {int(n): p for n, p in meta["payload"].items()}
            for i, user in enumerate(meta["users"]):
                self.users[user] = self.Index(ndim=DIM, metric="cos", dtype="f32")
                self.users[user].load(str(dir / f"{i}.usearch"))

    def add(self, items):
        by_user: dict[str, list[Item]] = {}
        for it in items:
            by_user.setdefault(it.user, []).append(it)
            self.payload[it.n] = [it.text, it.tag, it.importance]
        for user, its in by_user.items():
            if user not in self.users:
                self.users[user] = self.Index(ndim=DIM, metric="cos", dtype="f32")
            self.users[user].add(np.array([i.n for i in its], np.uint64), np.stack([i.vec for i in its]))

    def search(self, vector, text, k, user, filter=None):
        index = self.users.get(user)
        if index is None:
            return []
        fetch = k if filter is None else 20 * k
        while True:
            ns = [int(n) for n in index.search(vector, min(fetch, len(index))).keys]
            hits = [n for n in ns if filter is None or self.payload[n][1] == filter["tag"]]
            if len(hits) >= k or fetch >= len(index):
                return [(n, self.payload[n][0]) for n in hits[:k]]
            fetch *= 4

    def touch(self, item, importance):
        self.payload[item.n][2] = importance

    def delete(self, user):
        for n in self.users.pop(user).keys[:]:  # the slice is an array; iterating keys itself is quadratic
            del self.payload[int(n)]

    def close(self):
        for i, index in enumerate(self.users.values()):
            index.save(str(self.dir / f"{i}.usearch"))
        (self.dir / "meta.json").write_text(json.dumps({"payload": self.payload, "users": list(self.users)}))


class SqliteVec(Adapter):
    name = "sqlite-vec"
    packages = ["sqlite-vec", "pysqlite3-binary"]
    imports = "import sqlite3, sqlite_vec"
    notes = "vec0 table, user as partition key, tag as metadata column; WAL, synchronous=NORMAL; exact scan"

    def setup(self, dir):
        import sqlite3

        if not hasattr(sqlite3.Connection, "enable_load_extension"):  # some Python builds lack it
            import pysqlite3 as sqlite3
        self.sqlite3, self.dir, self.local = sqlite3, dir, threading.local()
        self.db.execute(
            "create virtual table if not exists memories using vec0(n integer primary key, user text partition key,"
            f" tag text, importance float, embedding float[{DIM}] distance_metric=cosine, +text text)"
        )

    @property
    def db(self):
        if not hasattr(self.local, "db"):  # one connection a thread
            import sqlite_vec

            db = self.local.db = self.sqlite3.connect(self.dir / "memory.db", timeout=30)
            db.enable_load_extension(True)
            sqlite_vec.load(db)
            db.execute("pragma journal_mode=wal")
            db.execute("pragma synchronous=normal")
        return self.local.db

    def add(self, items):
        with self.db:
            self.db.executemany(
                "insert into memories(n, user, tag, importance, embedding, text) values (?,?,?,?,?,?)",
                [(i.n, i.user, i.tag, i.importance, i.vec.tobytes(), i.text) for i in items],
            )

    def search(self, vector, text, k, user, filter=None):
        sql, args = "", [vector.tobytes(), k, user]
        if filter:
            sql, args = " and tag = ?", [*args, filter["tag"]]
        return self.db.execute(
            "select n, text from memories where embedding match ? and k = ? and user = ?" + sql + " order by distance",
            args,
        ).fetchall()

    def touch(self, item, importance):
        with self.db:
            self.db.execute("update memories set importance = ? where n = ?", (importance, item.n))

    def delete(self, user):
        with self.db:
            self.db.execute("delete from memories where user = ?", (user,))

    def close(self):
        self.db.close()


class Chroma(Adapter):
    name = "chromadb"
    packages = ["chromadb"]
    imports = "import chromadb"
    notes = "PersistentClient, one collection, HNSW cosine, where-filters; telemetry off"

    def setup(self, dir):
        import chromadb

        self.client = chromadb.PersistentClient(str(dir), chromadb.config.Settings(anonymized_telemetry=False))
        self.col = self.client.get_or_create_collection(
            "memories", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )

    def add(self, items):
        self.col.add(
            ids=[str(i.n) for i in items],
            embeddings=[i.vec for i in items],
            documents=[i.text for i in items],
            metadatas=[{"user": i.user, "tag": i.tag, "importance": i.importance} for i in items],
        )

    def search(self, vector, text, k, user, filter=None):
        where = {"user": user} if filter is None else {"$and": [{"user": user}, filter]}
        r = self.col.query(query_embeddings=[vector], n_results=k, where=where, include=["documents", "distances"])
        return [(int(n), t) for n, t in zip(r["ids"][0], r["documents"][0])]

    def touch(self, item, importance):
        self.col.update(ids=[str(item.n)], metadatas=[{"importance": importance}])

    def delete(self, user):
        self.col.delete(where={"user": user})


class LanceDB(Adapter):
    name = "lancedb"
    packages = ["lancedb"]
    imports = "import lancedb"
    notes = (
        "no vector index (its docs: not needed to ~100k rows); scalar indexes on n, user, tag; optimize() after load"
    )

    def setup(self, dir):
        import lancedb
        import pyarrow as pa

        self.schema = pa.schema(
            [
                ("n", pa.int64()),
                ("user", pa.string()),
                ("tag", pa.string()),
                ("importance", pa.float32()),
                ("text", pa.string()),
                ("vector", pa.list_(pa.float32(), DIM)),
            ]
        )
        self.pa = pa
        self.table = lancedb.connect(dir).create_table("memories", schema=self.schema, exist_ok=True)

    def add(self, items):
        pa = self.pa
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.concatenate([i.vec for i in items])), DIM)
        self.table.add(
            pa.table(
                [
                    pa.array([i.n for i in items]),
                    pa.array([i.user for i in items]),
                    pa.array([i.tag for i in items]),
                    pa.array([i.importance for i in items], pa.float32()),
                    pa.array([i.text for i in items]),
                    vectors,
                ],
                schema=self.schema,
            )
        )

    def settle(self):
        from lancedb.index import Bitmap, BTree

        for column, config in (("n", BTree()), ("user", Bitmap()), ("tag", Bitmap())):
            self.table.create_index(column, config=config)
        self.table.optimize()

    def search(self, vector, text, k, user, filter=None):
        where = f"user = '{user}'" + (f" AND tag = '{filter['tag']}'" if filter else "")
        rows = (
            self.table.search(vector, vector_column_name="vector")
            .distance_type("cosine")
            .where(where)
            .limit(k)
            .select(["n", "text", "_distance"])
            .to_list()
        )
        return [(r["n"], r["text"]) for r in rows]

    def touch(self, item, importance):
        self.table.update(where=f"n = {item.n}", values={"importance": importance})

    def delete(self, user):
        self.table.delete(f"user = '{user}'")


class QdrantLocal(Adapter):
    name = "qdrant-local"
    packages = ["qdrant-client"]
    imports = "from qdrant_client import QdrantClient"
    batch = 64  # upload_points' default
    notes = "QdrantClient(path=...): pure-Python local mode, exact scan"

    def setup(self, dir):
        from qdrant_client import QdrantClient, models

        self.m = models
        self.client = QdrantClient(path=str(dir))
        if not self.client.collection_exists("memories"):
            self.client.create_collection(
                "memories", vectors_config=models.VectorParams(size=DIM, distance=models.Distance.COSINE)
            )

    def add(self, items):
        self.client.upsert(
            "memories",
            [
                self.m.PointStruct(
                    id=i.n,
                    vector=i.vec.tolist(),
                    payload={"text": i.text, "user": i.user, "tag": i.tag, "importance": i.importance},
                )
                for i in items
            ],
        )

    def _filter(self, **match):
        return self.m.Filter(
            must=[self.m.FieldCondition(key=k, match=self.m.MatchValue(value=v)) for k, v in match.items()]
        )

    def search(self, vector, text, k, user, filter=None):
        r = self.client.query_points(
            "memories", query=vector.tolist(), limit=k, query_filter=self._filter(user=user, **(filter or {}))
        )
        return [(p.id, p.payload["text"]) for p in r.points]

    def touch(self, item, importance):
        self.client.set_payload("memories", payload={"importance": importance}, points=[item.n])

    def delete(self, user):
        self.client.delete("memories", points_selector=self.m.FilterSelector(filter=self._filter(user=user)))

    def close(self):
        self.client.close()


class QdrantEdge(Adapter):
    name = "qdrant-edge"
    packages = ["qdrant-edge-py"]
    imports = "import qdrant_edge"
    notes = "EdgeShard with keyword indexes on user and tag; optimize() after load (HNSW above its threshold)"

    def setup(self, dir):
        import qdrant_edge as q

        self.q = q
        if any(dir.iterdir()):
            self.shard = q.EdgeShard.load(str(dir))
            return
        self.shard = q.EdgeShard.create(
            str(dir), q.EdgeConfig(vectors=q.EdgeVectorParams(size=DIM, distance=q.Distance.Cosine))
        )
        for field in ("user", "tag"):
            self.shard.update(q.UpdateOperation.create_field_index(field, q.PayloadSchemaType.Keyword))

    def add(self, items):
        self.shard.update(
            self.q.UpdateOperation.upsert_points(
                [
                    self.q.Point(
                        i.n, i.vec.tolist(), {"text": i.text, "user": i.user, "tag": i.tag, "importance": i.importance}
                    )
                    for i in items
                ]
            )
        )

    def settle(self):
        self.shard.optimize()
        self.shard.flush()

    def _filter(self, **match):
        return self.q.Filter(must=[self.q.FieldCondition(k, match=self.q.MatchValue(v)) for k, v in match.items()])

    def search(self, vector, text, k, user, filter=None):
        hits = self.shard.query(
            self.q.QueryRequest(
                limit=k,
                query=self.q.Query.Nearest(vector.tolist()),
                with_payload=True,
                filter=self._filter(user=user, **(filter or {})),
            )
        )
        return [(h.id, h.payload["text"]) for h in hits]

    def touch(self, item, importance):
        self.shard.update(self.q.UpdateOperation.set_payload([item.n], {"importance": importance}))

    def delete(self, user):
        self.shard.update(self.q.UpdateOperation.delete_points_by_filter(self._filter(user=user)))

    def close(self):
        self.shard.flush()
        self.shard.close()


class MilvusLite(Adapter):
    name = "milvus-lite"
    packages = ["pymilvus", "milvus-lite"]
    imports = "from pymilvus import MilvusClient; import milvus_lite"
    notes = (
        "MilvusClient('x.db'): in-process gRPC server; AUTOINDEX cosine; flush() after load; filtered recall is "
        "exact until its index appears in the background, then falls"
    )

    def setup(self, dir):
        from pymilvus import DataType, MilvusClient

        self.path = str(dir / "memory.db")
        self.client = c = MilvusClient(self.path)
        if not c.has_collection("memories"):
            s = c.create_schema(auto_id=False)
            s.add_field("n", DataType.INT64, is_primary=True)
            s.add_field("vector", DataType.FLOAT_VECTOR, dim=DIM)
            for field, size in (("user", 64), ("tag", 64), ("text", 2000)):
                s.add_field(field, DataType.VARCHAR, max_length=size)
            s.add_field("importance", DataType.FLOAT)
            ix = c.prepare_index_params()
            ix.add_index("vector", index_type="AUTOINDEX", metric_type="COSINE")
            c.create_collection("memories", schema=s, index_params=ix)
        c.load_collection("memories")

    @staticmethod
    def _row(i, importance):
        return {"n": i.n, "vector": i.vec, "user": i.user, "tag": i.tag, "text": i.text, "importance": importance}

    def add(self, items):
        self.client.insert("memories", [self._row(i, i.importance) for i in items])

    def settle(self):
        self.client.flush("memories")

    def search(self, vector, text, k, user, filter=None):
        expr = f"user == '{user}'" + (f" and tag == '{filter['tag']}'" if filter else "")
        hits = self.client.search("memories", [vector], filter=expr, limit=k, output_fields=["text"])[0]
        return [(h["n"], h["entity"]["text"]) for h in hits]

    def touch(self, item, importance):
        self.client.upsert("memories", [self._row(item, importance)])

    def delete(self, user):
        self.client.delete("memories", filter=f"user == '{user}'")

    def close(self):
        self.client.close()
        with contextlib.suppress(ImportError):
            from milvus_lite.server_manager import server_manager_instance

            server_manager_instance.release_server(self.path)


class AgentVec(Adapter):
    name = "agentvec"
    packages = ["agentvec"]
    imports = "import agentvec"
    notes = "one collection, where_ filters, HNSW by itself; no delete-by-filter (ids found by a k=all search)"

    def setup(self, dir):
        import agentvec

        self.db = agentvec.AgentVec(str(dir / "memory.avdb"))
        self.col = self.db.collection("memories", DIM, "cosine")

    @staticmethod
    def _meta(i, importance):
        return {"text": i.text, "user": i.user, "tag": i.tag, "importance": importance}

    def add(self, items):
        if len(items) == 1:
            i = items[0]
            self.col.add(i.vec, self._meta(i, i.importance), str(i.n))
        else:
            self.col.add_batch(
                np.stack([i.vec for i in items]),
                [self._meta(i, i.importance) for i in items],
                [str(i.n) for i in items],
            )

    def search(self, vector, text, k, user, filter=None):
        hits = self.col.search(vector, k, {"user": user, **(filter or {})})
        return [(int(h.id), h.metadata["text"]) for h in hits]

    def touch(self, item, importance):
        self.col.upsert(str(item.n), item.vec, self._meta(item, importance))

    def delete(self, user):
        for n, _ in self.search(np.eye(1, DIM, dtype=np.float32)[0], "", 10_000_000, user):
            self.col.delete(str(n))

    def close(self):
        self.db.sync()


class Mem0(Adapter):
    name = "mem0"
    packages = ["mem0ai"]
    imports = "from mem0 import Memory"
    env = {"MEM0_DIR": "{dir}/mem0", "MEM0_TELEMETRY": "False"}
    batch = 20
    notes = (
        "add(infer=False) one message at a time (it has no bulk add), default local store = qdrant local mode, "
        "on_disk; telemetry off; default install, so no spaCy/fastembed (no lemmas, entities or BM25); "
        "threshold=0 (its default 0.1 drops distant answers)"
    )

    def setup(self, dir):
        from mem0 import Memory

        self.m = Memory.from_config(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": {"path": str(dir / "qdrant"), "embedding_model_dims": DIM, "on_disk": True},
                },
                "history_db_path": str(dir / "history.db"),
                "embedder": {"provider": "openai", "config": {"api_key": "none", "embedding_dims": DIM}},
                "llm": {"provider": "openai", "config": {"api_key": "none"}},
            }
        )
        self.m.embedding_model.embed = lambda text, action=None: embed(text)
        self.ids = {}

    def add(self, items):
        for i in items:
            r = self.m.add(
                i.text, user_id=i.user, infer=False, metadata={"n": i.n, "tag": i.tag, "importance": i.importance}
            )
            self.ids[i.n] = r["results"][0]["id"]

    def search(self, vector, text, k, user, filter=None):
        r = self.m.search(text, top_k=k, threshold=0.0, filters={"user_id": user, **(filter or {})})
        return [(h["metadata"]["n"], h["memory"]) for h in r["results"]]

    def touch(self, item, importance):
        self.m.update(self.ids[item.n], item.text, metadata={"importance": importance})

    def delete(self, user):
        self.m.delete_all(user_id=user)

    def close(self):
        self.m.vector_store.client.close()
        self.m.close()


class LangGraphStore(Adapter):
    name = "langgraph-inmemory"
    packages = ["langgraph", "numpy"]
    imports = "from langgraph.store.memory import InMemoryStore"
    persistent = False
    notes = "InMemoryStore(index=...), namespace per user; numpy installed as its docs advise"

    def setup(self, dir):
        from langgraph.store.base import PutOp
        from langgraph.store.memory import InMemoryStore

        self.PutOp = PutOp
        self.store = InMemoryStore(
            index={"dims": DIM, "embed": lambda texts: [embed(t) for t in texts], "fields": ["text"]}
        )

    def _value(self, i, importance):
        return {"n": i.n, "text": i.text, "tag": i.tag, "importance": importance}

    def add(self, items):
        self.store.batch([self.PutOp(("memories", i.user), str(i.n), self._value(i, i.importance)) for i in items])

    def search(self, vector, text, k, user, filter=None):
        hits = self.store.search(("memories", user), query=text, filter=filter, limit=k)
        return [(h.value["n"], h.value["text"]) for h in hits]

    def touch(self, item, importance):
        self.store.put(("memories", item.user), str(item.n), self._value(item, importance))

    def delete(self, user):
        for h in self.store.search(("memories", user), limit=10_000_000):
            self.store.delete(h.namespace, h.key)


class LangChainInMemory(Adapter):
    name = "langchain-inmemory"
    packages = ["langchain-core", "numpy"]
    imports = "from langchain_core.vectorstores import InMemoryVectorStore"
    notes = "InMemoryVectorStore, filters are Python callables; dump()/load() of one JSON file"

    def setup(self, dir):
        from langchain_core.documents import Document
        from langchain_core.embeddings import Embeddings
        from langchain_core.vectorstores import InMemoryVectorStore

        class Lookup(Embeddings):
            def embed_documents(self, texts):
                return [embed(t) for t in texts]

            def embed_query(self, text):
                return embed(text)

        self.Document, self.path = Document, dir / "memory.json"
        self.vs = (
            InMemoryVectorStore.load(str(self.path), Lookup()) if self.path.exists() else InMemoryVectorStore(Lookup())
        )

    def _add(self, items, importance=None):
        self.vs.add_documents(
            [
                self.Document(
                    id=str(i.n),
                    page_content=i.text,
                    metadata={"n": i.n, "user": i.user, "tag": i.tag, "importance": importance or i.importance},
                )
                for i in items
            ]
        )

    def add(self, items):
        self._add(items)

    def search(self, vector, text, k, user, filter=None):
        want = {"user": user, **(filter or {})}
        docs = self.vs.similarity_search(text, k, filter=lambda d: all(d.metadata[key] == v for key, v in want.items()))
        return [(d.metadata["n"], d.page_content) for d in docs]

    def touch(self, item, importance):
        self._add([item], importance)

    def delete(self, user):
        self.vs.delete([key for key, d in self.vs.store.items() if d["metadata"]["user"] == user])

    def close(self):
        self.vs.dump(str(self.path))


class CognitiveMemory(Adapter):
    name = "cognitive-memory"
    packages = ["cognitive-memory"]
    imports = "import cognitive_memory"
    notes = (
        "JsonlFileAdapter shared by one CognitiveMemory per user; bulk = add_memory_object (no conflict scan), "
        "single = add() (scans for conflicts); no metadata filter; answers ranked by retention x similarity"
    )

    def setup(self, dir):
        import asyncio

        import cognitive_memory as cm
        from cognitive_memory.embeddings import EmbeddingProvider

        class Lookup(EmbeddingProvider):
            dimensions = DIM

            def embed(self, text):
                return embed(text)

            def embed_batch(self, texts):
                return [embed(t) for t in texts]

        self.cm, self.run, self.lookup = cm, asyncio.run, Lookup()
        self.adapter = cm.JsonlFileAdapter(str(dir / "memory.jsonl"))
        self.users = {}

    def user(self, user):
        if user not in self.users:
            self.users[user] = self.cm.CognitiveMemory(adapter=self.adapter, embedder=self.lookup, user_id=user)
        return self.users[user]

    # The text is the only place for a caller's own key, so n is looked up by text (NUMBER is filled by load()).
    def add(self, items):
        async def go():
            for i in items:
                await self.user(i.user).add_memory_object(
                    self.cm.Memory(content=i.text, embedding=embed(i.text), importance=i.importance, user_id=i.user)
                )

        if len(items) == 1:
            self.run(self.user(items[0].user).add(items[0].text, importance=items[0].importance))
        else:
            self.run(go())

    def search(self, vector, text, k, user, filter=None):
        if filter:
            raise NotImplementedError
        r = self.run(self.user(user).search(text, top_k=k))
        return [(NUMBER[h.memory.content], h.memory.content) for h in r.results]

    def touch(self, item, importance):
        if not hasattr(self, "by_text"):
            self.by_text = {m.content: m for m in self.adapter.hot.values()}
        m = self.by_text[item.text]
        m.importance = importance
        self.run(self.user(item.user).update_memory(m))

    def delete(self, user):
        u = self.user(user)

        async def go():
            await u.delete_many([m.id for m in await u.list(include_cold=True)])

        self.run(go())
