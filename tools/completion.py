"""Shell completion for `gradopt`, made from its table of options."""

from __future__ import annotations

from gradopt.lowering.passes.registry import pass_names
from gradopt.tools.gradopt_options import OPTIONS

__all__ = ["completion_script"]


def completion_script(shell: str) -> str:
    """A script for bash, zsh or fish; the shell reads it with `source <(gradopt --completion=bash)`."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()


def _spellings() -> list[str]:
    return [option.name + ("=" if option.value is not None and not option.optional else "") for option in OPTIONS]


def _bash() -> str:
    cases = "".join(f"    {option.name}) words=\"{' '.join(option.choices)}\" ;;\n" for option in OPTIONS if option.choices)
    return f"""_gradopt() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} words=""
  [[ $word == "=" ]] && word=""
  [[ $previous == "=" ]] && previous=${{COMP_WORDS[COMP_CWORD-2]}}
  case $previous in
    -p|--pass|--passes|--pass-pipeline|--help-pass|--print-ir-before|--print-ir-after) words="{' '.join(pass_names())}" ;;
{cases}  esac
  if [[ -n $words ]]; then
    local head=""
    [[ $word == *,* ]] && head=${{word%,*}},
    COMPREPLY=($(compgen -P "$head" -W "$words" -- "${{word##*,}}"))
  elif [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "{' '.join(_spellings())}" -- "$word"))
    [[ ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
complete -F _gradopt gradopt
"""


def _zsh() -> str:
    lines = []
    for option in OPTIONS:
        about = option.help.replace("'", "").replace("[", "(").replace("]", ")").replace(":", ";")
        if option.value is None:
            lines.append(f"  '{option.name}[{about}]'")
        else:
            values = f"({' '.join(option.choices or (pass_names() if option.name in ('--pass', '--help-pass') else ()))})"
            action = values if values != "()" else "_files"
            lines.append(f"  '{option.name}=[{about}]:{option.value}:{action}'")
    return "#compdef gradopt\n_arguments \\\n" + " \\\n".join(lines) + " \\\n  '*:file:_files'\n"


def _fish() -> str:
    lines = []
    for option in OPTIONS:
        about = option.help.replace("'", "")
        line = f"complete -c gradopt -l {option.name.lstrip('-')} -d '{about}'"
        if option.value is not None and not option.optional:
            line += " -r"
        values = option.choices or (pass_names() if option.name in ("--pass", "--help-pass") else ())
        if values:
            line += f" -f -a '{' '.join(values)}'"
        lines.append(line)
    return "\n".join(lines) + "\n"
