{{ config(materialized='incremental', unique_key='customer_id', incremental_strategy='merge') }}
SELECT customer_id, total FROM {{ ref('totals') }}
