#!/usr/bin/env python3
"""Manual pages, and completions for bash, zsh and fish, of what `--help-json` of the programs says.

usage: scripts/make_manuals.py RLREPLAY RLBISECT PREFIX [--debian]

Writes below PREFIX/share: a page a program and verb into man/man1, and for each program
bash-completion/completions/NAME, zsh/site-functions/_NAME, fish/vendor_completions.d/NAME.fish.
--debian compresses the pages and takes Debian's folder for zsh, vendor-completions. The pages' date
is SOURCE_DATE_EPOCH's, or else today's.
"""
import argparse
import gzip
import json
import os
import pathlib
import re
import subprocess
import textwrap
import time

PARTS = {"rlreplay": [], "rlbisect": ["verdict", "op"]}  # verbs that a program's own table leaves out


def read_help(program, name):
    def said(*words):
        return subprocess.run([program, *words], check=True, text=True, capture_output=True).stdout
    tree = json.loads(said("--help-json"))
    tree["verbs"] += [json.loads(said(verb, "--help-json")) for verb in PARTS[name]]
    return tree, said("--version").split()[1]


def below(app):
    """The program or verb and all verbs below it."""
    return [app] + [each for verb in app["verbs"] for each in below(verb)]


def last_word(app):
    return app["name"].split()[-1]


def arguments(app):
    return [option for option in app["options"] if option["argument"]]


def flags(app):
    return [option for option in app["options"] if option["names"]]


def takes(option):
    """What follows a flag: "", "words", "number" or "file", which any other text may be."""
    if not option["value"] or option["choices"]:
        return "words" if option["value"] else ""
    return "file" if option["value"].startswith("TEXT") else "number"


# Manual pages

def roff(text):
    """Text as roff: code between backticks bold, dashes of flags as they are typed."""
    text = text.replace("\\", r"\(rs").replace("^", r"\(ha").replace("~", r"\(ti")
    text = re.sub(r"(?<![\w-])--?[A-Za-z][\w-]*", lambda m: m[0].replace("-", r"\-"), text)
    text = re.sub(r"(?<!\\)-(?![A-Za-z])|(?<![\\A-Za-z])-", r"\-", text)
    return re.sub("`([^`]*)`", r"\\fB\1\\fR", text)


def literal(text):
    return (text.replace("\\", r"\(rs").replace("-", r"\-").replace("'", r"\(aq")
            .replace("^", r"\(ha").replace("~", r"\(ti").replace("`", r"\(ga"))


def guarded(lines):
    """Lines of text: none of them is taken for a request."""
    return [r"\&" + line if line[:1] in (".", "'") else line for line in lines]


def prose(text):
    return guarded(textwrap.wrap(roff(text), 78, break_long_words=False, break_on_hyphens=False))


def described(option):
    """The description, which need not say what the choices are."""
    text = option["description"]
    missing = not all(re.search(rf"\b{re.escape(choice)}\b", text) for choice in option["choices"])
    return text + (": " + "|".join(option["choices"]) if missing else "")


def option_entry(option):
    names = ", ".join(rf"\fB{literal(name)}\fR" for name in option["names"])
    if option["argument"]:
        also = f"; also {option['names'][0]}" if option["names"] else ""
        return [".TP", rf"\fI{literal(option['argument'])}\fR", *prose(described(option) + also)]
    value = rf" \fI{literal(option['value'])}\fR" if option["value"] else ""
    return [".TP", names + value, *prose(described(option))]


def option_sections(app):
    lines = [line for option in arguments(app) for line in option_entry(option)]
    group = ""
    for option in flags(app):
        if option["argument"]:
            continue
        if option["group"] != group:
            group = option["group"]
            lines += [] if group == "Options" else [f'.SS "{group}"']
        lines += option_entry(option)
    return lines


def footer_sections(footer):
    """The lines below the options by where a manual page has them."""
    sections = {"DESCRIPTION": [], "EXIT STATUS": [], "EXAMPLES": []}
    at = "DESCRIPTION"
    for block in re.findall(r"(?:^ .*\n?)+|(?:^[^ \n].*\n?)+", footer, re.M):
        if block.startswith(" "):
            code = textwrap.dedent(block).splitlines()
            sections[at] += [".PP", ".EX", *guarded(map(literal, code)), ".EE"]
            continue
        for paragraph in re.split(r"^(?=Exit codes?\b|Examples?:$)", block, flags=re.M):
            at = "DESCRIPTION"
            if re.match(r"Examples?:$", paragraph.strip()):
                at = "EXAMPLES"
            elif paragraph.strip():
                at = "EXIT STATUS" if paragraph.startswith("Exit code") else at
                sections[at] += [".PP", *prose(" ".join(paragraph.split()))]
    return sections


def page_name(app):
    return app["name"].replace(" ", "-")


def manual_page(app, program, pages, version, date):
    sections = footer_sections(app["footer"])
    if app is not program and not any("Exit codes" in line for line in sections["EXIT STATUS"]):
        sections["EXIT STATUS"] += footer_sections(program["footer"])["EXIT STATUS"]
    parts = [each for each in below(app)[1:] if each not in pages]
    lines = [f'.TH "{literal(page_name(app)).upper()}" 1 "{date}" "{last_word(program)} {version}" '
             '"User Commands"', ".SH NAME", rf"{literal(page_name(app))} \- {app['description']}",
             ".SH SYNOPSIS"]
    for each in [app, *parts]:
        rest = literal(each["usage"].removeprefix(each["name"]).strip())
        lines += [rf"\fB{literal(each['name'])}\fR {rest}", ".br"]
    lines.pop()
    lines += [".SH DESCRIPTION", *prose(app["description"] + "."), *sections["DESCRIPTION"]]
    lines += [".SH OPTIONS", *option_sections(app)]
    for part in parts:
        lines += [f'.SH "{last_word(part).upper()}"', *prose(part["description"] + "."),
                  *option_sections(part)]
    verbs = [verb for verb in app["verbs"] if verb in pages]
    if verbs:
        lines.append(".SH VERBS")
    for verb in verbs:
        lines += [".TP", rf"\fB{literal(page_name(verb))}\fR(1)", *prose(verb["description"])]
    for title in ("EXIT STATUS", "EXAMPLES"):
        if sections[title]:
            lines += [f'.SH "{title}"', *sections[title][1:]]  # no paragraph begins a section
    others = [rf"\fB{name}\fR(1)" for name in PARTS if name != page_name(app)]
    lines += [".SH \"SEE ALSO\"", ", ".join(others) + ";",
              r"the pages in \fIshare/doc/rlreplay/docs\fR where it is installed."]
    return "\n".join(lines) + "\n"


def manual_pages(program, version, date):
    """Text by file name. A verb's parts stand on its page."""
    pages = [program, *program["verbs"]]
    return {page_name(app) + ".1": manual_page(app, program, pages, version, date) for app in pages}


# Completions

def path(app):
    """ " golden record": the words behind the program, each after a blank."""
    return app["name"].removeprefix(app["name"].split()[0])


def names_by(app, kind):
    return [name for option in flags(app) if takes(option) == kind for name in option["names"]]


def words_by(app):
    """Names of flags by the choices that they take."""
    out = {}
    for option in flags(app):
        if option["choices"]:
            out.setdefault(" ".join(option["choices"]), []).extend(option["names"])
    return out


def first_words(app, top):
    """What may stand first: verbs, and for a program the words that stand for flags."""
    return [last_word(verb) for verb in app["verbs"]] + (["help", "version"] if app is top else [])


BASH = r"""# bash completion of @NAME@, made by scripts/make_manuals.py.
_@NAME@() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local at= verbs= flags= argument= first=1 i
    COMPREPLY=()
    if [[ $current == = ]]; then
        current=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$at ${COMP_WORDS[i]}" in
        @PATHS@)
            at+=" ${COMP_WORDS[i]}"
            first=$((i + 1))
            ;;
        ' help') first=$((i + 1)) ;;
        *' --') return ;;  # another program's words: files, by complete's default
        esac
    done
    case $at in
@CASES@
    esac
    if [[ $current == -* || -z $verbs$argument ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$current"))
    elif [[ -n $verbs && $COMP_CWORD == "$first" ]]; then
        COMPREPLY=($(compgen -W "$verbs" -- "$current"))
        [[ -n $argument ]] || return
        compopt -o filenames
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")
    fi
} && complete -o default -F _@NAME@ @NAME@
"""


def bash_case(app, top):
    lines = [f"    '{path(app)}')", f"        verbs='{' '.join(first_words(app, top))}'",
             f"        flags='{' '.join(n for option in flags(app) for n in option['names'])}'",
             f"        argument='{'yes' if arguments(app) else ''}'", "        case $before in"]
    for words, names in words_by(app).items():
        lines += [f"        {' | '.join(names)})",
                  f"            COMPREPLY=($(compgen -W '{words}' -- \"$current\"))",
                  "            return", "            ;;"]
    if names_by(app, "file"):
        lines.append(f"        {' | '.join(names_by(app, 'file'))}) return ;;")
    if names_by(app, "number"):
        lines += [f"        {' | '.join(names_by(app, 'number'))})",
                  "            compopt +o default", "            return", "            ;;"]
    return "\n".join([*lines, "        esac", "        ;;"])


def bash(program):
    name = program["name"]
    paths = " | ".join(f"'{path(app)}'" for app in below(program)[1:])
    cases = "\n".join(bash_case(app, program) for app in below(program))
    return BASH.replace("@PATHS@", paths).replace("@CASES@", cases).replace("@NAME@", name)


def zsh_text(text):
    return re.sub(r"([\\\[\]:])", r"\\\1", text).replace("'", r"'\''")


def zsh_option(option):
    several = option["value"].endswith("...")
    excluded = f"({' '.join(option['names'])})" if len(option["names"]) > 1 and not several else ""
    action = {"": "", "words": f":{option['value']}:({' '.join(option['choices'])})",
              "file": f":{option['value']}:_files", "number": f":{option['value']}: "}[takes(option)]
    for name in option["names"]:
        equals = "=" if option["value"] and name.startswith("--") else ""
        yield (f"'{excluded}{'*' if several else ''}{name}{equals}"
               f"[{zsh_text(option['description'])}]{action}'")


def zsh_function(app, top):
    function = "_" + app["name"].replace(" ", "_")
    specs = [spec for option in flags(app) for spec in zsh_option(option)]
    if arguments(app):
        specs.append(f"'*:{arguments(app)[0]['argument']}:_files'")
    lines = [f"{function}() {{"]
    if app is top:
        lines += ["  if (( ${words[(I)--]} && ${words[(I)--]} < CURRENT )); then", "    _files",
                  "    return", "  fi"]
    if app["verbs"]:
        lines += ["  if (( CURRENT > 2 )); then", "    case $words[2] in"]
        for verb in app["verbs"]:
            lines.append(f"      {last_word(verb)}) shift words; (( CURRENT-- )); "
                         f"{'_' + verb['name'].replace(' ', '_')}; return ;;")
        if app is top:
            lines.append(f"      help) shift words; (( CURRENT-- )); {function}; return ;;")
        lines += ["    esac", "  else", "    local -a verbs", "    verbs=("]
        lines += [f"      '{last_word(verb)}:{zsh_text(verb['description'])}'" for verb in app["verbs"]]
        lines += [f"      {word}" for word in first_words(app, top)[len(app["verbs"]):]]
        lines += ["    )", "    _describe -t verbs verb verbs", "  fi"]
    return "\n".join([*lines, "  _arguments \\", *[f"    {spec} \\" for spec in specs[:-1]],
                      f"    {specs[-1]}", "}"])


def zsh(program):
    name = program["name"]
    functions = [zsh_function(app, program) for app in reversed(below(program))]
    return "\n\n".join([f"#compdef {name}\n# Made by scripts/make_manuals.py.", *functions,
                        f"if [[ $funcstack[1] == _{name} ]]; then\n  _{name} \"$@\"\nelse\n"
                        f"  compdef _{name} {name}\nfi"]) + "\n"


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


FISH = """# fish completion of @NAME@, made by scripts/make_manuals.py.
function __fish_@NAME@_at
    set -l at
    for word in (commandline -opc)[2..]
        switch "$at $word"
            case @PATHS@
                set at "$at $word"
            case '* --'
                return 1
        end
    end
    test "$at" = "$argv[1]"
end
"""


def fish_option(option):
    names = " ".join(("-l " + name[2:]) if name.startswith("--") else "-s " + name[1:]
                     for name in option["names"])
    action = {"": "", "words": f" -x -a '{' '.join(option['choices'])}'", "file": " -r -F",
              "number": " -x"}[takes(option)]
    return f"{names}{action} -d {quoted(option['description'])}"


def fish(program):
    name = program["name"]
    lines = [FISH.replace("@PATHS@", " ".join(f"'{path(app)}'" for app in below(program)[1:]))
             .replace("@NAME@", name)]
    for app in below(program):
        begin = f"complete -c {name} -n \"__fish_{name}_at '{path(app)}'\" "
        if not arguments(app):
            lines.append(begin + "-f")
        lines += [f"{begin}-a {last_word(verb)} -d {quoted(verb['description'])}"
                  for verb in app["verbs"]]
        lines += [f"{begin}-a {word}" for word in first_words(app, program)[len(app["verbs"]):]]
        lines += [begin + fish_option(option) for option in flags(app)]
    return "\n".join(lines) + "\n"


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    if file.suffix == ".gz":
        data = gzip.compress(data, 9, mtime=0)
    file.write_bytes(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rlreplay")
    parser.add_argument("rlbisect")
    parser.add_argument("prefix", type=pathlib.Path)
    parser.add_argument("--debian", action="store_true")
    given = parser.parse_args()
    share = given.prefix / "share"
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    date = time.strftime("%Y-%m-%d", time.gmtime(seconds))
    for name, program in (("rlreplay", given.rlreplay), ("rlbisect", given.rlbisect)):
        tree, version = read_help(program, name)
        for file, text in manual_pages(tree, version, date).items():
            write(share / "man/man1" / (file + (".gz" if given.debian else "")), text)
        write(share / "bash-completion/completions" / name, bash(tree))
        folder = "vendor-completions" if given.debian else "site-functions"
        write(share / "zsh" / folder / f"_{name}", zsh(tree))
        write(share / "fish/vendor_completions.d" / f"{name}.fish", fish(tree))


if __name__ == "__main__":
    main()
