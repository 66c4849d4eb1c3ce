{{ config(materialized='incremental', unique_key='id', incremental_strategy='delete+insert') }}
SELECT id, customer_id, placed, amount FROM {{ ref('raw_orders') }}
{% if is_incremental() %} WHERE id > (SELECT coalesce(max(id), 0) FROM {{ this }}) {% endif %}
