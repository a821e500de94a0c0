"""Completion scripts for shells, made from the parsers of the commands themselves.

The script is static: pressing TAB starts no Python.  It completes commands, sub-commands, options
and, where an option has a fixed set of values, those.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SHELLS: Final = ("bash", "zsh", "fish")
APOSTROPHE: Final = "\u2019"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What may follow a command: options with their help, values of options, sub-commands."""

    help: str = ""
    options: dict[str, str] = field(default_factory=dict)
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    below: dict[str, Words] = field(default_factory=dict)


def words_of(parser: argparse.ArgumentParser, help_text: str = "") -> Words:
    """Everything a parser accepts by name."""
    found = Words(help=help_text or parser.description or "")
    for action in parser._actions:
        for name in action.option_strings:
            found.options[name] = (action.help or "").replace("%%", "%")
            if action.choices is not None:
                found.choices[name] = tuple(map(str, action.choices))
        if isinstance(action, argparse._SubParsersAction):
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, inner in action.choices.items():
                found.below[name] = words_of(inner, texts.get(name, ""))
    return found


def script(shell: str, commands: Mapping[str, Words]) -> str:
    """The completion script of a shell."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)


def _places(commands: Mapping[str, Words]) -> dict[str, Words]:
    """Every ``command`` and ``command sub-command`` with its words."""
    found = {}
    for name, words in commands.items():
        found[name] = words
        for inner, more in words.below.items():
            found[f"{name} {inner}"] = more
    return found


def _bash(commands: Mapping[str, Words]) -> str:
    lines = [
        "# contrail completion for bash: contrail completion bash > "
        "~/.local/share/bash-completion/completions/contrail",
        "_contrail() {",
        '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"',
        '  local path="" words="" i',
        "  for ((i = 1; i < COMP_CWORD && i < 3; i++)); do",
        '    case "${COMP_WORDS[i]}" in -*) break ;; esac',
        '    path="$path${path:+ }${COMP_WORDS[i]}"',
        "  done",
        '  case "$path" in',
    ]
    places = _places(commands)
    for path in sorted(places, key=lambda one: -one.count(" ")):
        words = places[path]
        pattern = f'"{path}"*' if " " in path else f'"{path}"|"{path} "*'
        lines.append(f"    {pattern})")
        if words.choices:
            lines.append('      case "$prev" in')
            for option, values in words.choices.items():
                lines.append(
                    f'        {option}) COMPREPLY=($(compgen -W "{" ".join(values)}" -- "$cur"));'
                    " return ;;"
                )
            lines.append("      esac")
        lines.append(f'      words="{" ".join([*words.below, *words.options])}" ;;')
    top = " ".join([*commands, "help", "--help", "--version", "--debug"])
    lines += [
        f'    "") words="{top}" ;;',
        "  esac",
        '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
        "}",
        "complete -o default -F _contrail contrail",
    ]
    return "\n".join(lines) + "\n"


def _zsh(commands: Mapping[str, Words]) -> str:
    lines = [
        "#compdef contrail",
        "# contrail completion for zsh: put the output into a file _contrail of your fpath",
        "_contrail() {",
        "  local -a items",
        "  if (( CURRENT == 2 )); then",
        f"    items=({_zsh_items({name: words.help for name, words in commands.items()})})",
        "    _describe command items; return",
        "  fi",
        '  case "${words[2]} ${words[3]}" in',
    ]
    places = _places(commands)
    for path in sorted(places, key=lambda one: -one.count(" ")):
        found = places[path]
        pattern = f'"{path}"' if " " in path else f'"{path} "*'
        items = {name: words.help for name, words in found.below.items()}
        lines.append(f"    {pattern}) items=({_zsh_items({**items, **found.options})}) ;;")
    lines += ["  esac", "  _describe option items || _files", "}", '_contrail "$@"']
    return "\n".join(lines) + "\n"


def _zsh_items(items: Mapping[str, str]) -> str:
    return " ".join(
        _quoted(f"{name.replace(':', chr(92) + ':')}:{text}") for name, text in items.items()
    )


def _fish(commands: Mapping[str, Words]) -> str:
    names = " ".join(commands)
    lines = [
        "# contrail completion for fish: contrail completion fish > "
        "~/.config/fish/completions/contrail.fish",
        "complete -c contrail -f",
    ]
    for name, words in commands.items():
        lines.append(
            f"complete -c contrail -n 'not __fish_seen_subcommand_from {names}' "
            f"-a {name} -d {_quoted(words.help)}"
        )
        inner = " ".join(words.below)
        for below, more in words.below.items():
            condition = (
                f"__fish_seen_subcommand_from {name}; and not __fish_seen_subcommand_from {inner}"
            )
            lines.append(
                f"complete -c contrail -n '{condition}' -a {below} -d {_quoted(more.help)}"
            )
            lines += _fish_options(
                f"__fish_seen_subcommand_from {name}; and __fish_seen_subcommand_from {below}", more
            )
        if not words.below:
            lines += _fish_options(f"__fish_seen_subcommand_from {name}", words)
    return "\n".join(lines) + "\n"


def _fish_options(condition: str, words: Words) -> list[str]:
    lines = []
    for option, text in words.options.items():
        kind = f"-l {option[2:]}" if option.startswith("--") else f"-o {option[1:]}"
        if len(option) == 2:
            kind = f"-s {option[1:]}"
        values = f" -xa '{' '.join(words.choices[option])}'" if option in words.choices else ""
        lines.append(f"complete -c contrail -n '{condition}' {kind} -d {_quoted(text)}{values}")
    return lines


def _quoted(text: str) -> str:
    """In single quotes; zsh and fish escape differently, so an apostrophe becomes a curly one."""
    return "'" + text.replace("'", APOSTROPHE).replace("\n", " ") + "'"
