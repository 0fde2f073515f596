"""What prefixes look like, by the character that they begin with: who wrote the line, and when it was passed on.

Named groups are the facts in a prefix: `host`, `rank`, `task` (of srun), `pod`, `container`; `speaker` and `stream`
(words that name the writer); `program`; `printk` (only the kernel writes this); `time` (a time begins here).
Sources: rsyslog and syslog-ng, RFC 3164 and 5424, journalctl(1), dmesg(1), dev-kmsg, netconsole, CRI, kubectl, Docker
Compose, srun(1), mpirun(1) of Open MPI 4 and 5, torchrun's TailLog, PyTorch's excepthook, Ray's driver log, pdsh,
ts(1) of moreutils, quoted mail.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_CLOCK = r"\d\d:\d\d:\d\d"
_ISO = rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}[^ ]{{0,20}}"
_RFC3339 = rf"\d{{4}}-\d\d-\d\dT{_CLOCK}[^ ]{{0,20}}"
_WITH_ZONE = rf"\d{{4}}-\d\d-\d\dT{_CLOCK}(?:\.\d{{1,12}})?(?:Z|[+-]\d\d:?\d\d)"
_SYSLOG_TIME = rf"[A-Z][a-z]{{2}} [ \d]\d {_CLOCK}(?:\.\d{{1,9}})?"
_CTIME = rf"[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} [ \d]\d {_CLOCK} \d{{4}}"
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)"

_HOST = r"(?:[\w.-]{1,80}@)?(?P<host>\w[\w.-]{0,252})(?:/[\w.-]{1,252})?"
_PROGRAM = (
    r"(?:[a-z]{2,8}\d?\.[a-z]{3,7} )?"
    r"(?P<program>(?!(?:[\d./]+|[Ss]tep|[Ii]ter(?:ation)?|[Ee]poch|[\w.]{0,80}(?:Error|Exception)):)[\w./@+-]{1,120})"
)
"""A number, a word of progress or an exception is no program: `Epoch 3/10: `, `completed step: 7` are text."""

_OF_A_CONTAINER = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7,9}Z "
"""kubectl and Docker with `--timestamps`, GitHub: a syslog daemon writes at most six digits, and text follows here."""

_END = r":(?: |$)"
_SYSLOG = rf"(?!{_LEVEL} )(?P<speaker>{_HOST} {_PROGRAM}(?:\[\d{{1,10}}\])?){_END}"
_IN_ANY_LANGUAGE = rf"\S{{2,9}} {{1,2}}\d{{1,2}} {_CLOCK} (?P<speaker>{_HOST} (?P<program>kernel)){_END}"
_KERNEL_OR_PID = r"(?P<program>kernel|[\w./@+-]{1,120}\[\d{1,10}\])"
_STRUCTURED = r"(?:\[[^\]\"]{1,300}(?:\"(?:[^\"\\]|\\.){0,900}\"[^\]\"]{0,300}){0,30}\]){1,10}"

_SINCE_BOOT = r"[ \d]{0,8}\d\.\d{6}"
_DELTA = r"(?: < *[\d.]{1,20} *>)?"
_CALLER = r"(?:\[ {0,6}(?P<speaker>[TC]\d{1,9})\])?"
_PRINTK = (
    rf"\[(?P<printk>{_SINCE_BOOT}{_DELTA}| {{0,6}}\+\d{{1,9}}\.\d{{6}}|(?P<time>{_CTIME}){_DELTA}"
    rf"|[A-Z][a-z]{{2}} {{1,2}}\d{{1,2}} \d\d:\d\d)\]{_CALLER} ?"
)
_FACILITY = r"(?:user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local\d)"
_USER_STAMP = rf"(?:\[(?:{_SINCE_BOOT}{_DELTA}|{_CTIME})\]{_CALLER} ?)?"
_KMSG = r"(?:(?P<printk>[0-7])|\d{1,4}),\d{1,19},\d{1,19},[-c+][^;\n]{0,80};"

_NUMBERED_HOST = r"(?![A-Z]{2}\d{4}: \[)(?P<host>(?=[A-Za-z0-9.-]{0,80}\d)[A-Za-z][A-Za-z0-9.-]{0,80})"
_BEFORE_A_WORKER = (
    r"(?=\[|\(|  |Traceback \(|[\w.]{0,80}(?:Error|Exception|Interrupt|Exit)\b|[IWEF](?:\d{4}|\d{8}) "
    r"|\d{4}-\d\d-\d\d[T ]|\d{1,6}: |(?P=host):\d{1,8}:\d)"
)
_BEFORE_OTHERS_TEXT = (
    r"(?=\[|  |\t|Traceback \(|[\w.]{0,80}(?:Error|Exception|Interrupt|Exit)\b|[IWEF]\d{4} "
    r"|[A-Za-z][\w.-]{0,80}:\d{1,8}:\d{1,8} \[|\([^()\n]{0,120}\bpid=\d)"
)
"""Not the program's own line on its progress, whose rules read the rank in it."""

_TASK = r" {0,6}(?:P\d{1,4} {1,4})?(?P<speaker>(?P<task>\d{1,7})): "
_STREAM = r"<(?P<stream>stdout|stderr|stddiag)>: ?"
_IP = r"(?:, ip=[\w.:]{2,45})?"

_PROGRESS = r"(?=(?:\| ?)?(?:[Gg]lobal[ _])?(?:[Ss]tep|STEP|[Ii]ter(?:ation)?|ITER|[Ee]poch|Training)[ :=#\[]{1,4}\w)"
"""The program's own line on its progress: behind another word, the time belongs to the text of a logging library."""

_OF_ANOTHER_WRITER = (
    rf"(?= {{0,6}}\d{{1,7}}: |\[[a-z][a-z_-]{{0,40}}\d{{1,7}}\]: ?|\([^()\n]{{0,120}}\bpid=\d|[IWEF]\d{{4}} {_CLOCK}"
    r"|  File \"|    |Traceback \(|(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exit)(?::|$)"
    rf"|\d{{4}}-\d\d-\d\d[T ]{_CLOCK}|[A-Za-z][\w.-]{{0,80}}:\d{{1,8}}:\d{{1,8}} \[)"
)
"""What logging libraries don't write behind their time: another prefix, another time, or what Python prints."""

_DIGIT = (
    rf"(?P<time>{_ISO}) (?P<stream>stdout|stderr) [PF](?::\S{{0,20}})? ",
    rf"(?P<time>(?P<printk>\d{{4}}-\d\d-\d\dT{_CLOCK},\d{{6}}[+-]\d\d:\d\d)) {_CALLER} ?",
    rf"(?!{_OF_A_CONTAINER})(?P<time>{_RFC3339}) {_SYSLOG}",
    rf"(?P<time>{_RFC3339}) (?P<speaker>{_HOST} (?P<program>[\w./-]{{1,48}}) (?:\d{{1,10}}|-)) - - ",
    rf"(?P<time>{_RFC3339}) (?P<speaker>{_KERNEL_OR_PID}){_END}",
    rf"(?P<time>{_WITH_ZONE}) ",
    rf"(?P<time>\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:[.,]\d{{1,9}})?) (?:\| )?{_PROGRESS}",
    rf"(?P<time>\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:\.\d{{1,9}})?) {_OF_ANOTHER_WRITER}",
    rf"(?P<time>{_ISO}):? (?=\[{_SINCE_BOOT}\])",
    rf"(?P<time>\d{{10}}\.\d{{6}}) {_SYSLOG}",
    rf"(?:\d{{1,2}}\.\d[\w.+-]{{0,80}},)?{_KMSG}",
    _IN_ANY_LANGUAGE,
    _TASK,
    r"(?P<speaker>(?P<host>\d{1,3}(?:\.\d{1,3}){3})): ",
)
_SPACE = (_TASK, r" {1,2}(?P<program>kernel): ?", r" {1,8}(?=\[(?:rank\d{1,7}\]:|\d{1,7},\d{1,7}\]<std))")
_BRACKET = (
    r"\[(?P<speaker>rank(?P<rank>\d{1,7}))\]: ?",
    rf"\[(?P<speaker>rank (?P<rank>\d{{1,7}}))\] {_BEFORE_OTHERS_TEXT}",
    rf"\[(?P<speaker>(?:[^\]\s,]{{1,120}},)?(?P<rank>\d{{1,7}}))\](?:\[(?P<host>[\w.-]{{1,252}}):\d{{1,10}}\])?{_STREAM}",
    r"\[(?P<speaker>[a-z][a-z_-]{0,40}\d{1,7}|(?P<rank>\d{1,7}))\]: ?",
    rf"\[{_SINCE_BOOT}{_DELTA}\] (?P<speaker>(?P<host>\w[\w.-]{{0,252}}) {_KERNEL_OR_PID}){_END}",
    rf"\[{_SINCE_BOOT}{_DELTA}\] (?P<program>kernel){_END}",
    _PRINTK,
    r"\[(?P<speaker>pod/(?P<pod>[\w.-]{1,253})/(?P<container>[\w.-]{1,63}))\] ",
    r"\[(?P<speaker>Node \d{1,6} @ (?P<host>[\w.-]{1,252}))\] ",
    r"\[(?P<speaker>[a-z][a-z0-9_.-]{0,80}-\d{1,6})\] (?=[A-Z\[\d ])",
    rf"\[(?P<speaker>{_NUMBERED_HOST}:\d{{1,3}})\]:? (?!\*\*\* |Signal|Failing|\[ ?\d)",
    rf"\[(?P<time>\d{{4}}-\d\d-\d\dT{_CLOCK}(?:\.\d{{1,6}})?)\] ",
    rf"\[(?P<time>\d{{4}}-\d\d-\d\d {_CLOCK}[^ \]]{{0,20}})\] ?(?=\[{_SINCE_BOOT}\]| {{0,6}}\d{{1,7}}: )",
)
_PARENTHESIS = (
    rf"\((?P<speaker>[^()\n]{{0,120}}?\brank=(?P<rank>\d{{1,7}})\b[^()\n]{{0,120}}?\bpid=\w{{1,20}}{_IP})\) ",
    rf"\((?P<speaker>[^\n]{{0,160}}?\bpid=\w{{1,20}}{_IP})\) ",
    rf"\((?P<speaker>(?:raylet|gcs_server|autoscaler[^()\n]{{0,30}}){_IP})\) ",
)
_ANGLE = (
    rf"<\d{{1,3}}>1 (?:(?P<time>{_RFC3339})|-) (?P<speaker>(?P<host>\S{{1,252}}) (?P<program>\S{{1,48}}) \S{{1,128}})"
    rf" \S{{1,32}} (?:-|{_STRUCTURED})(?: \ufeff?|$)",
    rf"<(?:[89]|\d\d\d?)>\[{_SINCE_BOOT}\]{_CALLER} ?",
    r"<(?P<printk>[0-7])>(?![A-Z][a-z]{2} [ \d]\d |1? ?\d{4}-)",
    r"<\d{1,3}>(?:1 (?=\d{4}-))?",
)
_LETTER = (
    rf"(?P<time>{_SYSLOG_TIME}) {_SYSLOG}",
    rf"(?P<time>{_SYSLOG_TIME}) (?P<speaker>{_KERNEL_OR_PID}){_END}",
    rf"(?P<time>[A-Z][a-z]{{2}} \d{{4}}-\d\d-\d\d {_CLOCK}) [A-Z]{{2,5}} {_SYSLOG}",
    _IN_ANY_LANGUAGE,
    rf"(?P<time>{_CTIME})(?=\[[^\]\s]{{1,120}}\](?:\[[^\]\s]{{1,252}}\])?<std)",
    r"kern {0,4}:\w+ {0,4}: ",
    rf"{_FACILITY} {{0,6}}:\w+ {{0,4}}: {_USER_STAMP}",
    r"(?P<program>kernel): ?",
    r"(?P<speaker>[\w.-]{1,200}\.\d{1,6}\.[a-z0-9]{12,25}@(?P<host>[\w.-]{1,252})) {1,60}\| ?",
    r"(?P<speaker>[a-z][a-z0-9_.-]{0,120}[_-]\d{1,6}) {1,60}\| ",
    rf"(?P<speaker>{_NUMBERED_HOST}|localhost): {_BEFORE_A_WORKER}",
    r"(?P<stream>stdout|stderr): (?=\S)",
    _TASK,
    rf"(?P<time>{_SYSLOG_TIME}) ",
)


class Shapes(NamedTuple):
    """Prefixes, the strictest first; `any_of` fits wherever one of them does, and maybe elsewhere."""

    any_of: re.Pattern[str]
    each: tuple[re.Pattern[str], ...]


def _compiled(*shapes: str) -> Shapes:
    nameless = (re.sub(r"\(\?P<\w+>", "(?:", shape).replace("(?P=host)", r"[\w.-]{0,81}") for shape in shapes)
    any_of = re.compile("|".join(f"(?:{shape})" for shape in nameless), re.ASCII)
    return Shapes(any_of, tuple(re.compile(shape, re.ASCII) for shape in shapes))


_BY_KIND = {
    "[": _compiled(*_BRACKET),
    "(": _compiled(*_PARENTHESIS),
    "<": _compiled(*_ANGLE),
    ">": _compiled(r"> (?:> ){0,3}"),
    " ": _compiled(*_SPACE),
    "0123456789": _compiled(*_DIGIT),
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ": _compiled(*_LETTER),
}

SHAPES: Final = {first: shapes for firsts, shapes in _BY_KIND.items() for first in firsts}
"""The shapes that may begin with a character; characters that begin none are left out."""

REPEATED: Final = re.compile(r" ?\[repeated \d{1,9}x across (?:the )?cluster\][^\n]{0,400}$", re.ASCII)
"""Ray's driver log: the number of lines of other processes that this one replaces."""
