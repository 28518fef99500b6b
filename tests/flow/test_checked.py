"""Rows of the report that tests record."""

import json

from seedbed.flow.report import checked
from seedbed.flow.report.report import document
from seedbed.flow.report.sections import sections


def case(*rows, ended=""):
    properties = "".join(
        f'<property name="row" value="{json.dumps(row).replace(chr(34), "&quot;")}" />'
        for row in rows
    )
    return f"<testcase><properties>{properties}</properties>{ended}</testcase>"


def test_rows_of_tests_that_have_passed_are_added_up(tmp_path):
    job = ["drivers", "link", "make test", {"jobs": 2}]
    path = tmp_path / "tests.xml"
    cases = [
        case(job), case(job, ["export", "gemv", "make test", {"bytes": 7}]), "<testcase />",
        *(case(job, ended=f"<{ended} />") for ended in ("failure", "error", "skipped")),
    ]  # fmt: skip
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    found = checked.rows(path)
    assert [(row.core, row.config, row.figures) for row in found] == [
        ("drivers", "link", {"jobs": 4}), ("export", "gemv", {"bytes": 7}),
    ]  # fmt: skip
    assert {row.command for row in found} == {"make test"}
    tables = {table.title: table.lines for table in sections(document(found)["rows"])}
    assert tables["Drivers"] == [["drivers", "link", "4"]]
    assert tables["Exported files"] == [["export", "gemv", "7"]]


def test_a_file_of_tests_that_is_damaged_or_missing(tmp_path, capsys):
    path = tmp_path / "tests.xml"
    assert checked.rows(path) == []
    for text in (
        "<testsuites>",
        f"<a>{case(['drivers'])}</a>",
        f"<a>{case([1, 2, 3, {}])}</a>"[:9],
    ):
        path.write_text(text)
        assert checked.rows(path) == []
        assert (
            capsys.readouterr().err == f"{path} is damaged, and is skipped: run 'make test' again\n"
        )


def test_what_a_test_records_is_a_row(reported, request):
    reported("drivers", "test of the report", "make test", jobs=0)
    assert request.node.user_properties == [
        ("row", '["drivers", "test of the report", "make test", {"jobs": 0}]')
    ]
    request.node.user_properties.clear()
