"""Statements that are no queries, and queries that reach for files: every engine refuses them."""

from pathlib import Path

# {folder} is a folder that must stay as it is; it has secret.csv, secret.parquet and secret.txt.
STATEMENTS = {
    "copy to": "COPY (SELECT 'x' AS x) TO '{folder}/new.csv'",
    "copy table to": "COPY orders TO '{folder}/new.parquet'",
    "copy from": "COPY orders FROM '{folder}/secret.csv'",
    "copy database": "COPY FROM DATABASE memory TO other",
    "attach": "ATTACH '{folder}/new.db' AS new",
    "detach": "DETACH memory",
    "use": "USE memory",
    "install": "INSTALL httpfs",
    "load": "LOAD '{folder}/secret.txt'",
    "export": "EXPORT DATABASE '{folder}/new'",
    "import": "IMPORT DATABASE '{folder}'",
    "create table": "CREATE TABLE new AS SELECT 1 AS x",
    "create view": "CREATE OR REPLACE TEMPORARY VIEW orders AS SELECT 1 AS x",
    "create function": "CREATE FUNCTION f(x INT) RETURNS INT RETURN x",
    "create macro": "CREATE MACRO f(x) AS x",
    "create secret": "CREATE PERSISTENT SECRET s (TYPE s3, KEY_ID 'x')",
    "insert": "INSERT INTO orders SELECT * FROM orders",
    "insert with": "WITH x AS (SELECT * FROM orders) INSERT INTO orders SELECT * FROM x",
    "insert from": "FROM orders INSERT INTO orders SELECT *",
    "insert directory": "INSERT OVERWRITE DIRECTORY '{folder}/new' USING parquet SELECT 1 AS x",
    "insert local": "INSERT OVERWRITE LOCAL DIRECTORY '{folder}/new' STORED AS PARQUET SELECT 1",
    "update": "UPDATE orders SET side = 'x'",
    "delete": "DELETE FROM orders",
    "truncate": "TRUNCATE TABLE orders",
    "merge": "MERGE INTO orders USING trades ON true WHEN MATCHED THEN DELETE",
    "drop": "DROP TABLE orders",
    "drop view": "DROP VIEW orders",
    "alter": "ALTER TABLE orders RENAME TO others",
    "set": "SET threads = 1",
    "set of spark": "SET spark.sql.runSQLOnFiles=true",
    "reset": "RESET threads",
    "pragma": "PRAGMA database_list",
    "pragma profile": "PRAGMA profiling_output = '{folder}/new.json'",
    "call": "CALL enable_logging(storage = 'file', storage_path = '{folder}/new')",
    "vacuum": "VACUUM",
    "analyze": "ANALYZE",
    "checkpoint": "CHECKPOINT",
    "begin": "BEGIN TRANSACTION",
    "block": "BEGIN DROP TABLE orders; END",
    "commit": "COMMIT",
    "prepare": "PREPARE p AS SELECT 1",
    "execute": "EXECUTE p",
    "execute immediate": "EXECUTE IMMEDIATE 'DROP TABLE orders'",
    "deallocate": "DEALLOCATE p",
    "explain copy": "EXPLAIN ANALYZE COPY (SELECT 1 AS x) TO '{folder}/new.csv'",
    "explain drop": "EXPLAIN DROP TABLE orders",
    "add jar": "ADD JAR '{folder}/secret.txt'",
    "cache": "CACHE TABLE c AS SELECT 1 AS x",
    "refresh": "REFRESH TABLE orders",
    "load data": "LOAD DATA LOCAL INPATH '{folder}/secret.csv' INTO TABLE orders",
    "with copy": "WITH c AS (COPY (SELECT 1 AS x) TO '{folder}/new.csv') SELECT * FROM c",
    "with insert": "WITH c AS (INSERT INTO orders SELECT * FROM orders RETURNING 1) FROM c",
    "with delete": "SELECT (WITH c AS (DELETE FROM orders RETURNING 1) SELECT count(*) FROM c)",
    "explain with copy": "EXPLAIN ANALYZE WITH c AS (COPY (SELECT 1) TO '{folder}/new.csv') FROM c",
    "comment": "-- SELECT\nDROP TABLE orders",
    "carriage return": "-- x\rDROP TABLE orders",
    "continued comment": "-- x \\\nSHOW TABLES\nDROP TABLE orders",
    "nested comment": "/* /* */ SELECT 1 */ DROP TABLE orders",
    "brackets": "(DROP TABLE orders)",
    "closed bracket": "SELECT 1) INSERT INTO orders (security_id",
    "closed bracket, from": "SELECT 1) FROM orders INSERT INTO trades SELECT * WHERE 1 IN (1",
    "closed brackets": "SELECT 1)); DROP TABLE orders; SELECT * FROM ((SELECT 1",
}
BEFORE = {
    "alone": "",
    "after SELECT": "SELECT 1;",
    "after SHOW": "SHOW TABLES;",
    "after EXPLAIN": "EXPLAIN ANALYZE SELECT 1;",
    "after semicolons": "SELECT 1;;; ;",
    "after texts": "SELECT ';', \"--\" /* ; */ FROM orders -- ;\n;",
    "after DESCRIBE": "DESCRIBE orders;",
    "explained": "EXPLAIN ",
}
CASES = [(before, name) for before in BEFORE for name in STATEMENTS]

READING = {
    "csv": "SELECT * FROM read_csv('{folder}/secret.csv')",
    "csv auto": 'SELECT * FROM "read_csv_auto" (\'{folder}/secret.csv\')',
    "csv with schema": "SELECT * FROM system.main.read_csv('{folder}/secret.csv')",
    "sniff": "SELECT * FROM sniff_csv('{folder}/secret.csv')",
    "text": "SELECT * FROM READ_TEXT('{folder}/secret.txt')",
    "blob": "SELECT * FROM read_blob('{folder}/secret.txt')",
    "json": "SELECT * FROM read_json('{folder}/secret.txt')",
    "glob": "SELECT * FROM glob('{folder}/*')",
    "parquet": "SELECT * FROM read_parquet('{folder}/secret.parquet')",
    "parquet list": "SELECT * FROM parquet_scan(['{folder}/secret.parquet'])",
    "parquet metadata": "SELECT * FROM parquet_metadata('{folder}/secret.parquet')",
    "parquet schema": "SELECT * FROM parquet_schema('{folder}/secret.parquet')",
    "file as a table": "SELECT * FROM '{folder}/secret.parquet'",
    "file as a name": 'SELECT * FROM "{folder}/secret.csv"',
    "file of a wildcard": "SELECT * FROM '{folder}/*.parquet'",
    "file in an expression": "SELECT (SELECT max(x) FROM '{folder}/secret.parquet')",
    "file in WITH": "WITH a AS (FROM '{folder}/secret.parquet') SELECT * FROM a",
    "file explained": "EXPLAIN ANALYZE SELECT * FROM read_text('{folder}/secret.txt')",
    "file described": "DESCRIBE SELECT * FROM '{folder}/secret.parquet'",
    "file summarized": "SUMMARIZE '{folder}/secret.parquet'",
    "query": "SELECT * FROM query('FROM read_text(''{folder}/secret.txt'')')",
    "query of a table": "SELECT * FROM query_table('{folder}/secret.parquet')",
    "serialized": "SELECT * FROM json_execute_serialized_sql(json_serialize_sql("
                  "'FROM read_text(''{folder}/secret.txt'')'))",
    "log": "SELECT * FROM enable_logging(storage = 'file', storage_path = '{folder}/new')",
    "profile": "SELECT * FROM enable_profiling(save_location = '{folder}/new')",
    "duckdb file": "SELECT * FROM read_duckdb('{folder}/new.db')",
    "secrets": "SELECT * FROM duckdb_secrets()",
    "which secret": "SELECT * FROM which_secret('s3://x', 's3')",
    "settings": "SELECT * FROM duckdb_settings()",
    "environment": "SELECT getenv('HOME')",
    "variable of Python": "SELECT * FROM hidden",
}  # fmt: skip


# Queries of Spark's that run code or read files.
REACHING = [
    "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT java_method('java.lang.System', 'exit', 0)",
    "SELECT `try_reflect`('java.lang.System', 'exit', 0)",
    "SELECT system.builtin.reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT IDENTIFIER('reflect')('java.lang.System', 'getenv', 'HOME')",
    "SELECT IDENTIFIER('re' || 'flect')('java.lang.System', 'getenv', 'HOME')",
    "SELECT * FROM orders WHERE side IN (SELECT REFLECT('java.lang.System', 'getenv', 'HOME'))",
    "SELECT max(price) OVER w FROM orders WINDOW w AS (PARTITION BY reflect('a', 'b'))",
    "WITH a AS (SELECT reflect('java.lang.System', 'getenv', 'HOME')) SELECT * FROM a",
    "EXPLAIN SELECT reflect('java.lang.System', 'getenv', 'HOME')",
    "DESCRIBE QUERY SELECT reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT * FROM parquet.`/lake/orders`",
    "SELECT * FROM `csv`.`/etc/passwd`",
    "SELECT * FROM text/**/.`/etc/passwd`",
    "SELECT * FROM IDENTIFIER('text.`/etc/passwd`')",
    "SELECT (SELECT max(value) FROM text.`/etc/passwd`)",
    "SELECT * FROM read_files('/etc/passwd')",
    "SELECT * FROM (SELECT TRANSFORM (side) USING 'sh' AS x FROM orders)",
    "SELECT (SELECT TRANSFORM (side) USING 'sh' AS x FROM orders)",
    "FROM orders MAP side USING/**/ 'sh' AS x",
]


def refused(statement, before, folder):
    """A statement after another."""
    return BEFORE[before] + STATEMENTS[statement].replace("{folder}", str(folder))


def contents(*folders):
    """Everything below some folders: names, times, contents."""
    found = {}
    for folder in folders:
        for path in sorted(Path(str(folder)).rglob("*")):
            found[path] = (path.stat().st_mtime_ns, path.read_bytes()) if path.is_file() else None
    return found
