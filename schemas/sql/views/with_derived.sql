CREATE OR REPLACE TEMPORARY VIEW {table} (
    {declared}
)
COMMENT {grain}
AS
SELECT {columns}
FROM {table}_stored
