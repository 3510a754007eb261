"""A record may say that a stripe is an older one's, unchanged: its fragments are read, checked and rebuilt there."""

import msgspec

from ckptstore.load.fetch import Fetcher
from ckptstore.load.plan import Shard
from ckptstore.load.reader import read
from ckptstore.operations.findings import Counts
from ckptstore.operations.survey import survey_shard
from manifests import StripeSource
from tests.support import RUN, make_store, random_bytes, whole


def test_a_stripe_used_again_is_read_where_it_lies(tmp_path):
    store = make_store(tmp_path)
    arrays = {"w": random_bytes(700_000)}
    older = store.save(arrays, step=1)
    record = store.record(older)
    stripes = [
        msgspec.structs.replace(
            stripe,
            source=StripeSource(session=older.session, ordinal=older.ordinal, shard_id=record.shard_id, stripe=number),
        )
        for number, stripe in enumerate(record.stripes)
    ]
    newer = msgspec.structs.replace(record, shard_id="ab" * 16, stripes=stripes)
    store.take_away("c")

    request = whole(Shard(RUN, newer), newer.tensors[0])
    read([request], Fetcher(store.opened.targets, store.opened.executor), store.opened.buffers)
    assert request.into.tobytes() == arrays["w"].tobytes()

    counts = Counts()
    reference = store.index(older).shards[0]
    survey = survey_shard(store.opened, Shard(RUN, newer), reference, {}, counts, chosen=range(len(stripes)))
    assert {finding.target for finding in survey.findings} == {"c"}
    assert not any(stripe.lost or stripe.undecided for stripe in survey.stripes)
