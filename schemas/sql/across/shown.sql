-- The addresses of brokers in each text.
SELECT body, list_distinct(regexp_extract_all("text", '"?-?[0-9]+"?:"([^"]+)"', 1)) AS shown FROM bodies
