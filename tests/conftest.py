"""What all tests share: the fixtures of the testkit."""

pytest_plugins = ["perdure_testkit.plugin"]
