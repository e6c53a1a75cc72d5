from eval_run import workspace

assert (workspace / "report.txt").read_text().strip() == "Report of 2025: 291", "not what the program prints"
assert (workspace / "build_report.py").is_file()
