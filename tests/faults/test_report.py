"""The page is made of what each proof counted last."""

from tests.faults.report import Proof, keep, page


def test_the_page_holds_what_each_proof_counted_last(tmp_path):
    for count in (1, 12_345):
        keep("b", Proof("Second", "make b", "Of b.", {"injections": count}, 90.0), tmp_path)
    keep("a", Proof("First", "make a", "Of a.", {"silent": 0}, 6.0, [[["kind", "n"], ["x", 7]]]), tmp_path)
    text = page(tmp_path)
    assert text.index("## First") < text.index("## Second")
    assert "| injections | 12,345 |" in text
    assert "| injections | 1 |" not in text
    assert "| kind | n |\n| --- | ---: |\n| x | 7 |" in text
    assert "1.5 minutes on" in text
