"""The gateway listens at other addresses than loopback only where it requires a sign-in."""

import pytest
from click.testing import CliRunner

from infra.cli.main import main
from infra.local.processes import StartError, bind, format_address, is_listening


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.1.5", "::", "fd00::1"])  # noqa: S104
def test_another_address_than_loopback_needs_sign_in(address: str) -> None:
    for options, environment in ((["--bind", address], {}), ([], {"CARREL_BIND": address})):
        result = CliRunner().invoke(main, ["up", *options], env=environment)
        assert result.exit_code == 2
        assert "Add --sign-in" in result.output


def test_an_address_is_not_a_name() -> None:
    result = CliRunner().invoke(main, ["up", "--sign-in", "--bind", "example.com"])
    assert result.exit_code == 2
    assert "is not an IP address" in result.output


@pytest.mark.parametrize("address", ["0.0.0.0", "127.0.0.1", "::", "::1"])  # noqa: S104
def test_a_bound_socket_is_reached_from_this_machine(address: str) -> None:
    with bind(0, address) as listener:
        listener.listen()
        host = format_address(listener)
        assert is_listening(host)


def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(StartError, match=r"at 192\.0\.2\.1 cannot be used"):
        bind(8080, "192.0.2.1")
