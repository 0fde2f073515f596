-- Why a record could not be processed, in a word from a closed list (rules.model.DeadLetterKind): what is counted and
-- gone by. Rows of before have it by how their sentence begins.
ALTER TABLE dead_letters ADD COLUMN IF NOT EXISTS kind LowCardinality(String) DEFAULT multiIf(
    reason = 'empty value', 'empty',
    startsWith(reason, 'too large: '), 'too-large',
    startsWith(reason, 'not JSON: '), 'not-json',
    startsWith(reason, 'wrong shape: '), 'wrong-shape',
    startsWith(reason, 'no log line: '), 'no-log-line',
    startsWith(reason, 'corrupt batch: '), 'corrupt-batch',
    startsWith(reason, 'no message of ours: ') OR startsWith(reason, 'no range of ours: '), 'not-ours',
    '') AFTER dead_letter_id;
