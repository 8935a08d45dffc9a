"""Run folders as they are found: cut, damaged, from other versions, saved by spreadsheets."""

import gzip
import math

import pandas as pd
import pytest

import analysis
from analysis import runs, schema, tables

REQUESTS = schema.REQUESTS_FILE


def lines(folder, file=REQUESTS):
    return (folder / file).read_text().splitlines(keepends=True)


def rewrite(folder, text, file=REQUESTS):
    (folder / file).write_text(text, encoding="utf-8")


@pytest.fixture
def two(build):
    run = build()
    run.level()
    run.request(0, [100, 110, 120])
    run.request(1, [200, 210])
    return run


def test_a_run_is_read_into_frames_with_every_column_of_the_schema(two):
    run = analysis.load(two.write())
    assert list(run.requests) == schema.names(REQUESTS)
    assert list(run.tokens) == schema.names(schema.TOKENS_FILE)
    assert list(run.levels) == schema.names(schema.LEVELS_FILE)
    assert run.requests["first_token_ms"].tolist() == [100, 200]
    assert run.requests["planned_ms"].isna().all()  # empty cells are absent
    assert run.tokens["request_id"].tolist() == ["0-0"] * 3 + ["0-1"] * 2
    assert run.damages == ()


def test_a_cut_last_row_is_left_out_and_named(two):
    folder = two.write()
    rewrite(folder, "".join(lines(folder))[:-20])
    run = analysis.load(folder)
    assert run.requests["request_id"].tolist() == ["0-0"]
    assert [(damage.file, damage.line) for damage in run.damages] == [(REQUESTS, 3)]
    assert run.orphan_tokens == 2


def test_a_row_of_another_width_is_refused_by_its_line_and_not_read_shifted(two):
    folder = two.write()
    head, first, second = lines(folder)
    rewrite(folder, head + "9," + first + second)
    run = analysis.load(folder)
    assert run.requests["request_id"].tolist() == ["0-1"]
    assert run.damages[0].line == 2
    rewrite(folder, head + first + second.replace(",200,", ",2OO,", 1))
    assert analysis.load(folder).damages[0].reason == "first_token_ms is no number: '2OO'"


def test_a_short_row_is_refused(two):
    folder = two.write()
    head, first, second = lines(folder)
    rewrite(folder, head + first[: first.rindex(",")] + "\n" + second)
    run = analysis.load(folder)
    assert (len(run.requests), run.damages[0].line) == (1, 2)


def test_damaged_token_rows_are_counted_and_the_rest_kept(two):
    folder = two.write()
    rows = lines(folder, schema.TOKENS_FILE)
    rows[2] = "0-0,1,not-a-number,,answer\n"
    rewrite(folder, "".join(rows) + "0-1,2,22", schema.TOKENS_FILE)
    run = analysis.load(folder)
    assert run.tokens["arrival_ms"].tolist() == [100, 120, 200, 210]
    assert [damage.line for damage in run.damages] == [3, 7]


def test_an_error_text_with_commas_quotes_and_line_breaks_is_one_cell(build):
    run = build()
    run.level()
    run.request(error_class="http_500", error_text='Traceback:\n  file "a.py", line 1\nboom, "again"')
    run.request(1, [5, 6])
    frame = analysis.load(run.write()).requests
    assert frame["error_text"].tolist()[0] == 'Traceback:\n  file "a.py", line 1\nboom, "again"'
    assert len(frame) == 2


def test_a_damaged_row_below_a_multi_line_cell_is_named_by_its_line(build):
    run = build()
    run.request(error_class="http_500", error_text="one\ntwo\nthree")
    run.request(1, [5, 6])
    folder = run.write()
    rewrite(folder, "".join(lines(folder)) + "short,row\n")
    assert [damage.line for damage in analysis.load(folder).damages] == [6]  # header, three lines, one, this


def test_a_byte_order_mark_windows_line_ends_and_unknown_columns_are_passed_over(two):
    folder = two.write()
    text = "".join(lines(folder)).replace("request_id,", "colour,request_id,", 1).replace("\n0-", "\nred,0-")
    (folder / REQUESTS).write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    run = analysis.load(folder)
    assert run.requests["request_id"].tolist() == ["0-0", "0-1"]
    assert run.damages == ()


def test_columns_are_found_by_name_in_any_order(two):
    folder = two.write()
    frame = pd.read_csv(folder / REQUESTS, dtype=str)
    frame[frame.columns[::-1]].to_csv(folder / REQUESTS, index=False)
    assert analysis.load(folder).requests["first_token_ms"].tolist() == [100, 200]


def test_an_untitled_trailing_column_is_passed_over_but_a_value_in_it_is_not(two):
    folder = two.write()
    head, first, second = (line.rstrip("\n") for line in lines(folder))
    rewrite(folder, f"{head},\n{first},\n{second},7\n")
    run = analysis.load(folder)
    assert run.requests["request_id"].tolist() == ["0-0"]
    assert "no title" in run.damages[0].reason


@pytest.mark.parametrize("cell", ["", "N/A", "NaN", "null"])
def test_words_for_nothing_are_absent_and_not_zero(build, cell):
    run = build()
    run.request(0, [10, 20], input_tokens=cell)
    assert math.isnan(analysis.load(run.write()).requests["input_tokens"][0])


def test_a_model_called_null_keeps_its_name(build):
    run = build()
    run.request(0, [10, 20], model="null")
    assert analysis.load(run.write()).requests["model"][0] == "null"


def test_a_file_saved_with_semicolons_and_decimal_commas_is_refused_in_one_line(two):
    folder = two.write()
    rewrite(folder, "".join(lines(folder)).replace(",", ";"))
    with pytest.raises(tables.RunError, match=r"requests\.csv: separated by semicolons"):
        analysis.load(folder)


def test_a_file_with_another_header_is_refused(two):
    folder = two.write()
    rewrite(folder, "Type,Name\nPOST,/v1/chat\n")
    with pytest.raises(tables.RunError, match="no column request_id, outcome in its header"):
        analysis.load(folder)


def test_compressed_files_are_read_and_a_cut_archive_gives_its_whole_rows(two):
    folder = two.write()
    for file in (REQUESTS, schema.TOKENS_FILE):
        (folder / f"{file}.gz").write_bytes(gzip.compress((folder / file).read_bytes()))
        (folder / file).unlink()
    run = analysis.load(folder)
    assert (len(run.requests), len(run.tokens), run.damages) == (2, 5, ())
    archive = folder / f"{schema.TOKENS_FILE}.gz"
    many = "".join(f"0-0,{index},{index + 0.125 * index * index},,answer\n" for index in range(5000))
    whole = gzip.compress((",".join(schema.names(schema.TOKENS_FILE)) + "\n" + many).encode())
    archive.write_bytes(whole[: len(whole) // 2])
    run = analysis.load(folder)
    assert 1000 < len(run.tokens) < 4000
    assert [damage.reason for damage in run.damages] == ["cut off at the end of the file"]


def test_files_in_parts_are_read_in_the_order_in_which_they_were_written(two):
    two.request(2, [300])
    folder = two.write()
    header, *rows = lines(folder, schema.TOKENS_FILE)
    packed = gzip.compress((header + "".join(rows[:2])).encode())
    (folder / "tokens.0001.csv.gz").write_bytes(packed)
    rewrite(folder, header + "".join(rows[2:5]), "tokens.0002.csv")
    (folder / "tokens.0002.csv.gz").write_bytes(packed[:20])  # the archive of it is being written
    rewrite(folder, header + "".join(rows[5:]) + "0-2,1,3", schema.TOKENS_FILE)
    header, *rows = lines(folder)
    rewrite(folder, header + rows[0], "requests.0001.csv")
    rewrite(folder, header + rows[1] + rows[2])
    rewrite(folder, "other", "tokens.old.csv")
    found = [path.name for path in runs.find_files(folder, schema.TOKENS_FILE)]
    assert found == ["tokens.0001.csv.gz", "tokens.0002.csv", "tokens.csv"]
    run = analysis.load(folder)
    assert run.requests["request_id"].tolist() == ["0-0", "0-1", "0-2"]
    assert run.tokens["arrival_ms"].tolist() == [100, 110, 120, 200, 210, 300]
    assert [(damage.file, damage.line) for damage in run.damages] == [(schema.TOKENS_FILE, 3)]


def test_requests_and_tokens_that_came_twice_count_once(two):
    folder = two.write()
    for file in (REQUESTS, schema.TOKENS_FILE):
        rewrite(folder, "".join(lines(folder, file) + lines(folder, file)[1:]), file)
    run = analysis.load(folder)
    assert (len(run.requests), run.duplicates, len(run.tokens)) == (2, 2, 5)


def test_optional_files_and_a_broken_run_json_may_be_missing(two):
    folder = two.write()
    for file in (schema.TOKENS_FILE, schema.LEVELS_FILE, schema.HEALTH_FILE):
        (folder / file).unlink()
    (folder / schema.RUN_FILE).write_text('{"name": "te')
    run = analysis.load(folder)
    assert (len(run.requests), len(run.tokens), run.info) == (2, 0, {})
    assert run.damages[0].file == schema.RUN_FILE


def test_durations_that_can_not_be_true_are_refused_and_counted(build):
    run = build()
    run.request(0, [-1.7e12, 20], first_answer_ms=5)
    run.request(0, [90, 100])
    run.request(0, [10, 20], e2e_ms="inf")
    run.request(0, [10, 20], e2e_ms=9e9)  # 104 days in a run of 17 minutes
    loaded = analysis.load(run.write())
    assert loaded.invalid == {"first_token_ms": 1, "e2e_ms": 2}
    assert loaded.requests["first_token_ms"].min() == 10


def test_a_monotonic_reading_is_not_taken_for_a_wall_clock_time(build):
    run = build()
    run.request(0, [10, 20], sent_unix_s=5321.4)
    assert analysis.load(run.write()).invalid == {"sent_unix_s": 1}


def test_latest_is_the_newest_run_and_a_missing_one_is_named(tmp_path):
    for name in ("20260101T000000Z-a", "20260201T000000Z-b", "empty"):
        (tmp_path / name).mkdir()
        if name != "empty":
            (tmp_path / name / REQUESTS).write_text("request_id,outcome\n")
    assert runs.find_run("latest", tmp_path).name == "20260201T000000Z-b"
    assert runs.find_run("20260101T000000Z-a", tmp_path).name == "20260101T000000Z-a"
    with pytest.raises(tables.RunError, match="no such run folder"):
        runs.find_run("nowhere", tmp_path)
    with pytest.raises(tables.RunError, match="no run yet"):
        runs.find_run("latest", tmp_path / "empty")
