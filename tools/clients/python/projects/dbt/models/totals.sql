{{ config(materialized='table', indexes=[{'columns': ['customer_id'], 'unique': true}]) }}
WITH orders AS (SELECT customer_id, count(*) AS orders, sum(amount) AS total FROM {{ ref('raw_orders') }} GROUP BY 1)
SELECT c.customer_id, c.name, coalesce(o.orders, 0) AS orders, coalesce(o.total, 0) AS total
FROM {{ ref('customers') }} c LEFT JOIN orders o USING (customer_id)
