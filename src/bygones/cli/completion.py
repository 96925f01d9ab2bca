"""``bygones completion``: teach a shell our words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from bygones.cli.completing import VARIABLE

__all__ = ["completion"]

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    r"""Print what a shell needs to complete commands, sessions and projects.

    \b
    cd ~/.local/share/bash-completion/completions
    bygones completion bash > bygones

    \b
    bygones completion zsh > ~/.zfunc/_bygones

    \b
    cd ~/.config/fish/completions
    bygones completion fish > bygones.fish
    """
    found = get_completion_class(shell)
    above = context.parent
    if found is None or above is None:
        raise click.UsageError(f"no completion for {shell}")
    asking = found(above.command, {}, "bygones", VARIABLE)
    # Asking bash for its version could only delay what is printed.
    click.echo(asking.source_template % asking.source_vars())
