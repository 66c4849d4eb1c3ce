{{ config(materialized='incremental') }}
SELECT id, amount FROM {{ ref('added') }}
{% if is_incremental() %} WHERE id > (SELECT max(id) FROM {{ this }}) {% endif %}
