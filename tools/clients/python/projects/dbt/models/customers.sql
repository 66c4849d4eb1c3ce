SELECT id AS customer_id, name, coalesce(country, 'none') AS country FROM {{ ref('raw_customers') }}
