"""Data files: read in parts, in any size, with bad rows counted and told."""

import json
import tracemalloc

import pytest

from scenarios.workload.rows import BadRow, LeftOut, Rows, WorkloadEnd, read


def lines(folder, rows, name="data.jsonl"):
    path = folder / name
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def number(row):
    if "n" not in row:
        raise BadRow("no n")
    if row["n"] < 0:
        raise LeftOut("below 0")
    return row["n"]


def take_all(rows):
    taken = []
    while True:
        try:
            taken.append(rows.next())
        except WorkloadEnd as end:
            return taken, str(end)


def test_workers_take_disjoint_parts_that_make_up_the_whole(tmp_path):
    for name, text in {
        "a.jsonl": "".join(json.dumps({"n": n}) + "\n" for n in range(11)),
        "a.json": json.dumps([{"n": n} for n in range(11)], indent=2),
        "a.csv": "n\n" + "".join(f"{n}\n" for n in range(11)),
    }.items():
        path = tmp_path / name
        path.write_text(text)
        parts = [[row for _, row in read(str(path), worker, 3)] for worker in range(3)]
        numbers = [[int(row["n"]) for row in part if isinstance(row, dict)] for part in parts]
        assert numbers == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8]], name


def test_bad_rows_are_counted_the_first_three_told_and_the_others_sent(tmp_path, caplog):
    rows = [{"n": 1}, "{broken\n", {"m": 1}, "\n", [1], {"m": 2}, {"n": 2}]
    reader = Rows(lines(tmp_path, rows), number)
    taken, _ = take_all(reader)
    assert taken == [1, 2]
    assert reader.all_counts() == {"rows_usable": 2, "rows_bad": 4, "rows_left_out": 0, "rounds_again": 0}
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 3
    assert "data.jsonl row 2 left out: no JSON object" in told[0]
    assert told[1].endswith("row 3 left out: no n")  # the line's number, blank lines counted too
    assert "row 5 left out: no JSON object" in told[2]


def test_too_many_bad_rows_end_the_load(tmp_path):
    reader = Rows(lines(tmp_path, [{"n": 1}, *({"m": 1},) * 5]), number, max_bad_rows=4)
    taken, end = take_all(reader)
    assert taken == [1]
    assert "more than max_bad_rows = 4 bad rows" in end


def test_a_file_without_usable_rows_says_how_many_and_why(tmp_path):
    reader = Rows(lines(tmp_path, [{"n": -1}, {"n": -2}, {"m": 1}, {"n": -3}, {"n": -4}]), number)
    taken, end = take_all(reader)
    assert taken == []
    assert "usable 0 of 5: 4 below 0, 1 no n" in end


def test_an_empty_file_says_so(tmp_path):
    assert "usable 0 of 0" in take_all(Rows(lines(tmp_path, []), number))[1]


def test_a_file_is_sent_once_unless_it_is_to_be_repeated(tmp_path):
    path = lines(tmp_path, [{"n": 1}, {"n": 2}, {"m": 0}, {"n": -1}])
    taken, end = take_all(Rows(path, number))
    assert taken == [1, 2]
    assert "all 2 rows are sent; repeat = true sends them again" in end

    reader = Rows(path, number, repeat=True)
    assert [reader.next() for _ in range(5)] == [1, 2, 1, 2, 1]
    assert reader.all_counts() == {"rows_usable": 2, "rows_bad": 1, "rows_left_out": 1, "rounds_again": 2}


def test_repeating_a_file_without_usable_rows_ends_too(tmp_path):
    assert "usable 0 of 1" in take_all(Rows(lines(tmp_path, [{"m": 1}]), number, repeat=True))[1]


def test_a_worker_without_rows_is_told_which_part_it_had(tmp_path):
    end = take_all(Rows(lines(tmp_path, [{"n": 1}]), number, worker=1, workers=2))[1]
    assert "usable 0 of 0 for worker 1 of 2" in end


def test_a_json_list_is_read_whatever_its_chunks_are_cut_at(tmp_path, monkeypatch):
    items = [{"n": n, "text": 'a "quoted" [bracket], {brace}\n' * (n % 5), "s": "é€𝄞"} for n in range(200)]
    path = tmp_path / "list.json"
    for indent in (None, 1):
        path.write_text(json.dumps(items, indent=indent, ensure_ascii=False), encoding="utf-8")
        for chunk in (1, 2, 7, 64, 1000, 10**6):
            monkeypatch.setattr("scenarios.workload.rows.CHUNK_CHARS", chunk)
            assert [row for _, row in read(str(path))] == items


def test_a_json_list_that_is_cut_off_gives_its_sound_items_and_one_fault(tmp_path):
    path = tmp_path / "list.json"
    path.write_text('[{"n": 1}, {"n": 2}, {"n": 3')
    assert list(read(str(path))) == [
        (1, {"n": 1}),
        (2, {"n": 2}),
        (3, "the JSON list is cut off or broken here"),
    ]


def test_a_json_file_that_is_no_list_is_one_fault(tmp_path):
    path = tmp_path / "list.json"
    path.write_text('{"n": 1}')
    assert list(read(str(path))) == [(1, "no JSON list in the file")]


def test_csv_cells_may_hold_line_breaks_quotes_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfprompt,max_tokens\r\n"say ""hi"",\ntwice",5\r\n')
    assert list(read(str(path))) == [(3, {"prompt": 'say "hi",\ntwice', "max_tokens": "5"})]


def test_csv_rows_with_too_few_or_too_many_cells_are_bad(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1\n1,2\n1,2,3\n")
    rows = dict(read(str(path)))
    assert rows == {2: "not 2 cells as in the header", 3: {"a": "1", "b": "2"}, 4: "not 2 cells as in the header"}


@pytest.mark.parametrize("name", ["big.jsonl", "big.json", "big.csv"])
def test_a_big_file_is_never_held_in_memory(tmp_path, name):
    path = tmp_path / name
    text = "word " * 200
    with path.open("w") as file:
        if name.endswith(".json"):
            file.write("[" + ",\n".join(json.dumps({"n": n, "prompt": text}) for n in range(20_000)) + "]")
        elif name.endswith(".csv"):
            file.write("n,prompt\n" + "".join(f"{n},{text}\n" for n in range(20_000)))
        else:
            file.write("".join(json.dumps({"n": n, "prompt": text}) + "\n" for n in range(20_000)))
    assert path.stat().st_size > 20e6
    tracemalloc.start()
    try:
        assert sum(1 for _ in read(str(path))) == 20_000
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 5e6
