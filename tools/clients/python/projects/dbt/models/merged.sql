{{ config(materialized='incremental', unique_key='id', incremental_strategy='merge') }}
SELECT id, customer_id, placed, amount FROM {{ ref('raw_orders') }}
