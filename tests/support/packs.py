"""A small rule pack for tests to break."""

A_PACK = """\
pack: mine
rules:
  - id: mine.one
    title: One
    class: mine-one
    source: worker
    patterns: ['went wrong: \\d']
    severity: error
    role: root
    entity: job
    meaning: It went wrong.
    examples:
      matches: ['it went wrong: 1', 'it went wrong: 2']
      near_misses: ['it went well: 1']
"""
